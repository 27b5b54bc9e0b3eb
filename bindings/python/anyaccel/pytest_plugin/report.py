"""Formats problems the way pytest formats failed assertions."""

from _pytest._code.code import ExceptionChainRepr, ReprEntry, ReprFileLocation, ReprTraceback

from . import problems


def failure(found, root):
    """Return the value of `longrepr` for a failed report: one entry per problem, and the line for
    the short summary.
    """
    entries = []
    for problem in found:
        place = ReprFileLocation(problem["file"] or problem["test"].split("::")[0], problem["line"], problem["kind"])
        entries.append(ReprEntry(problems.lines(problem, root), None, None, place, "long"))
    traceback = ReprTraceback(entries, None, "long")
    first = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    summary = ReprFileLocation(first["file"], first["line"], f"accelerator check: {first['kind']}: {first['what']}{more}")
    return ExceptionChainRepr([(traceback, summary, None)])
