"""The command line of `anyaccel port`, completed with the settings of pyproject.toml."""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
from collections.abc import Sequence

from . import pool, rules, settings
from .errors import UsageError
from .escaped import quoted_text

FORMATS = ("text", "json", "sarif", "github")
_DESCRIPTION = """Find code that depends on CUDA, explain it and replace it. Examines Python, notebooks, C++, CUDA, CMake,
shell scripts, Dockerfiles, Makefiles, YAML, JSON, TOML, INI and requirements files. Without --fix, nothing is changed."""
_EPILOG = """Exit code: 0 success; 1 failure, findings with --check, or differences with --verify; 2 wrong usage;
130 interrupted."""


class _Parser(argparse.ArgumentParser):

    def error(self, message):
        raise UsageError(message)


def _number(convert, low, text, what):
    try:
        value = convert(text)
        if not low <= value < math.inf:
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid value {quoted_text(text)}, expected {what}") from None
    return value


def _count(text):
    return _number(int, 0, text, "an integer, 0 or more")


def _fraction(text):
    return _number(float, 0, text, "a number, 0 or more")


def _rule_list(text):
    return [name.strip() for name in text.split(",") if name.strip()]


def parser() -> argparse.ArgumentParser:
    p = _Parser("anyaccel port", description=_DESCRIPTION, epilog=_EPILOG, allow_abbrev=False)
    p.add_argument("paths",
                   nargs="*",
                   metavar="PATH",
                   help="files and folders; folders are searched for files that git does not ignore")
    group = p.add_argument_group("what to do")
    group.add_argument("--to", choices=rules.TARGETS, help="interface to port the program to (default: anyaccel)")
    group.add_argument("--fix", action="store_true", help="replace code that has an exact equivalent")
    group.add_argument("--unsafe-fixes",
                       action="store_true",
                       default=None,
                       help="with --fix, --diff or --verify: also make replacements that need review")
    group.add_argument("--diff", action="store_true", help="print a unified diff of what --fix would change, and change nothing")
    group.add_argument("--check",
                       action="store_true",
                       default=None,
                       help="exit with 1 if findings remain that are not harmless, or if a file cannot be examined")
    group.add_argument("--force", action="store_true", help="fix files even if they have uncommitted changes")
    group.add_argument("--verify",
                       metavar="COMMAND",
                       help="run a shell command in copies of the folder, before and after the fixes, and compare the results")
    group.add_argument("--tolerance",
                       type=_fraction,
                       metavar="X",
                       help="relative difference between numbers that --verify accepts (default: 1e-3)")
    group.add_argument("--verify-before",
                       choices=("sim", "cpu"),
                       default="sim",
                       help="device for the unchanged program: a simulated CUDA device (sim, the default) or the CPU (cpu)")
    group.add_argument("--verify-timeout",
                       type=_fraction,
                       default=600,
                       metavar="SECONDS",
                       help="time limit for each run (default: 600)")
    group = p.add_argument_group("what to report")
    group.add_argument("--select",
                       type=_rule_list,
                       action="extend",
                       metavar="RULES",
                       help="apply only these rules; patterns such as cuda-amp-* are allowed")
    group.add_argument("--ignore", type=_rule_list, action="extend", metavar="RULES", help="do not apply these rules")
    group.add_argument("--exclude",
                       action="append",
                       metavar="PATTERN",
                       help="skip files and folders that match, such as third_party or *_pb2.py")
    group.add_argument("--baseline", metavar="FILE", help="file of known findings, which do not fail --check")
    group.add_argument("--update-baseline", action="store_true", help="write the findings of this run to the baseline")
    group.add_argument("--format", choices=FORMATS, default="text", help="format of the report (default: text)")
    group.add_argument("--output", metavar="FILE", help="write the report to a file instead of standard output")
    group.add_argument("--html", metavar="FILE", help="also write an HTML page with the findings and the remaining work")
    group.add_argument("--rules", dest="rules_list", action="store_true", help="list the rules and exit")
    group.add_argument("--explain", metavar="RULE", help="explain a rule and exit")
    group = p.add_argument_group("other")
    group.add_argument("--config", metavar="FILE", help="read the settings from this file instead of the nearest pyproject.toml")
    group.add_argument("--no-config", action="store_true", help="do not read pyproject.toml")
    group.add_argument("--max-file-size",
                       type=_count,
                       metavar="BYTES",
                       help="skip files larger than this (default: 4194304; notebooks and JSON: 16 times as much)")
    group.add_argument("--jobs", "-j", type=_count, metavar="N", help="number of processes (default: one per core)")
    return p


@dataclasses.dataclass
class Options:
    """All options, from the command line and the settings."""

    arguments: argparse.Namespace
    root: str  # the folder that patterns are relative to
    rules: frozenset[str] | None
    exclude: list[str]
    off: list[tuple[str, frozenset[str]]]

    def __getattr__(self, name):
        return getattr(self.arguments, name)

    @property
    def own_files(self) -> tuple[str | None, ...]:
        """Files that this tool writes."""
        return self.baseline, self.output, self.html


def _settings(given: argparse.Namespace) -> tuple[dict, str]:
    if given.config is not None:
        return settings.read(given.config), os.path.dirname(os.path.abspath(given.config))
    if given.no_config or not given.paths:
        return {}, os.getcwd()
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in map(os.path.abspath, given.paths)]
    path = settings.find(os.path.commonpath(folders))
    if path is None:
        return {}, os.getcwd()
    found = settings.read(path)
    return found, os.path.dirname(path) if found else os.getcwd()


def _combine(given: argparse.Namespace, found: dict, root: str) -> None:
    """Fill in options that were not given, from the settings or with defaults."""
    defaults = {
        "to": rules.ANYACCEL,
        "max_file_size": 4 << 20,
        "jobs": pool.available_cores(),
        "tolerance": 1e-3,
        "check": False,
        "unsafe_fixes": False,
        "verify": None,
        "baseline": None
    }
    for name, default in defaults.items():
        if getattr(given, name) is None:
            setattr(given, name, found.get(name.replace("_", "-"), default))
            if name == "baseline" and given.baseline is not None:
                given.baseline = os.path.join(root, given.baseline)
    given.jobs, given.max_file_size = int(given.jobs), int(given.max_file_size)
    if given.to not in rules.TARGETS:
        raise UsageError(
            f"tool.anyaccel.port.to is invalid: got {quoted_text(given.to)}, expected one of {', '.join(rules.TARGETS)}")


def _check(given: argparse.Namespace) -> None:
    fixes = given.fix or given.diff or given.verify
    if given.fix and given.diff:
        raise UsageError("--diff changes nothing, so it cannot be combined with --fix")
    if given.update_baseline and not given.baseline:
        raise UsageError("--update-baseline requires --baseline FILE")
    if given.unsafe_fixes and not fixes and "unsafe_fixes" in given.on_command_line:
        raise UsageError("--unsafe-fixes requires --fix, --diff or --verify")
    if given.diff and given.format != "text":
        raise UsageError("--diff prints a diff, so it cannot be combined with --format")
    if given.verify and (given.fix or given.diff or given.update_baseline):
        raise UsageError("--verify fixes a copy, so it cannot be combined with --fix, --diff or --update-baseline")
    if given.verify and given.format not in ("text", "json"):
        raise UsageError(f"--verify has the formats text and json, got {given.format}")
    if given.verify and len(given.paths) != 1:
        raise UsageError(f"--verify needs one folder, got {len(given.paths)} paths")
    if given.verify and not os.path.isdir(given.paths[0]):
        raise UsageError(f"--verify needs a folder, got {quoted_text(given.paths[0])}")


def parse(words: Sequence[str]) -> Options:
    """Parse the command line. Raises UsageError."""
    given = parser().parse_args([_dashes(word) if word.startswith("--") else word for word in words])
    if given.rules_list or given.explain:
        return Options(given, os.getcwd(), None, [], [])
    if not given.paths:
        raise UsageError("no file or folder was given; write `anyaccel port .` for the current folder")
    for path in given.paths:
        if not os.path.exists(path):
            raise UsageError(f"no such file or folder: {quoted_text(path)}")
    given.on_command_line = {name for name, value in vars(given).items() if value}
    found, root = _settings(given)
    if given.verify is None and (given.fix or given.diff or given.update_baseline):
        found.pop("verify", None)
    _combine(given, found, root)
    _check(given)
    select, ignore = [*(given.select or found.get("select", []))], [*(given.ignore or []), *found.get("ignore", [])]
    enabled = settings.rule_ids(select, "--select") if select else frozenset(rules.BY_ID)
    enabled -= settings.rule_ids(ignore, "--ignore")
    off = [(pattern, settings.rule_ids(ids, "per-file-ignores")) for pattern, ids in found.get("per-file-ignores", {}).items()]
    return Options(given, root, None if enabled == frozenset(rules.BY_ID) else enabled,
                   [*(given.exclude or []), *found.get("exclude", [])], off)


def _dashes(word: str) -> str:
    """`--unsafe_fixes` means `--unsafe-fixes`, as in all commands of anyaccel."""
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value
