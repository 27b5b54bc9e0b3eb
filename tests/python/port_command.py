"""Helpers for the tests of `anyaccel port`: a small finder that needs no parser, and functions that
run the command in this process.
"""
import os
import pathlib
import re
import subprocess
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bindings/python"))

from anyaccel_port import __main__ as command  # noqa: E402
from anyaccel_port import edits, languages  # noqa: E402
from anyaccel_port.findings import Edit, Finding, Lines, SourceError  # noqa: E402

_PATTERN = re.compile(r"torch\.cuda\.(synchronize|nccl|seed)|CRASH")
SEVERITIES = {
    "synchronize": ("cuda-synchronize", "equivalent", "get_accelerator().synchronize"),
    "nccl": ("cuda-nccl", "none", None),
    "seed": ("cuda-seed", "review", "device_module.seed")
}


def find(text, file, target):
    if "cuda BROKEN" in text:
        raise SourceError("unexpected word BROKEN", text[:text.index("cuda BROKEN")].count("\n") + 1)
    found = []
    for match in _PATTERN.finditer(text):
        if match[0] == "CRASH":
            os._exit(9)
        rule, severity, replacement = SEVERITIES[match[1]]
        line, column = Lines(text).position(match.start())
        change = (Edit(match.start(), match.end(), replacement), ) if replacement else ()
        found.append(
            Finding(rule, severity, file, match.start(), match.end(), line, column, match[0], "the reason", replacement, change))
    return found


def fix(text, findings, target):
    return edits.apply_findings(text, findings)[0]


FINDER = types.SimpleNamespace(find=find, fix=fix)


def use_finder(monkeypatch, finder=FINDER):
    """Make all languages use a finder."""
    monkeypatch.setattr(languages, "finder", lambda module: finder)


def port(capfdbinary, *words):
    """Run the command. Returns its exit code and outputs."""
    code = command.main([str(word) for word in words])
    out, err = capfdbinary.readouterr()
    return code, out.decode("utf-8", "surrogateescape"), err.decode("utf-8", "surrogateescape")


def git(folder, *words):
    names = {f"GIT_{who}_{what}": "test@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", "-C", folder, *words],
                   check=True,
                   capture_output=True,
                   env={
                       **os.environ,
                       **names, "GIT_CONFIG_GLOBAL": "/dev/null"
                   })
