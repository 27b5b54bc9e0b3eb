"""Checker problems as plain dictionaries, which test reports can carry from pytest-xdist workers to
the main process.
"""

import linecache
import os
import re

_FRAME = re.compile(r'File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')


def frames(stack):
    """Return the Python frames of a stack as (file, line, function), innermost first."""
    found = [_FRAME.fullmatch(line) for line in stack]
    return [(match["file"], int(match["line"]), match["function"]) for match in found if match]


def _is_installed(file):
    """Return whether a file belongs to an installed package or to Python itself."""
    return "site-packages" in file or "dist-packages" in file or file.startswith("<") or file.startswith(os.path.dirname(os.__file__))


def location(stack, root):
    """Return the innermost frame in the tested project as (file, line, function). Frames below
    `root` are preferred, then frames outside installed packages, then any frame. Return None if the
    stack has no Python frames.
    """
    found = frames(stack)
    below = [frame for frame in found if os.path.abspath(frame[0]).startswith(os.path.join(root, "")) and not _is_installed(frame[0])]
    outside = [frame for frame in found if not _is_installed(frame[0])]
    return (below or outside or found or [None])[0]


def as_dict(problem, test, phase, root):
    """Return a problem from anyaccel.sim.problems() as a dictionary, with the test and the phase in
    which it occurred.
    """
    place = location(problem.stack, root)
    return {
        "test": test, "phase": phase, "kind": problem.kind, "op": problem.op, "what": problem.what, "remedy": problem.remedy,
        "message": problem.message, "stack": list(problem.stack),
        "file": os.path.relpath(place[0], root) if place else "", "line": place[1] if place else 0, "function": place[2] if place else ""
    }  # yapf: disable


def lines(problem, root):
    """Return the lines that describe a problem in a test's failure."""
    result = []
    if problem["file"]:
        source = linecache.getline(os.path.join(root, problem["file"]), problem["line"]).rstrip()
        if source:
            result.append(">   " + source)
    result += ["E   " + line for line in (f"{problem['kind']}: {problem['what']}", f"fix: {problem['remedy']}")]
    callers = frames(problem["stack"])
    if callers:
        result += ["", "called from:" if len(callers) > 1 else "in:"]
        result += [f"    {os.path.relpath(file, root) if file.startswith(root) else file}:{line} in {function}" for file, line, function in callers[:10]]
    return result
