"""Settings in the section [tool.anyaccel.port] of pyproject.toml."""

from __future__ import annotations

import os

from . import rules
from .errors import UsageError
from .escaped import quoted_text

_TEXTS = ("to", "baseline", "verify")
_LISTS = ("select", "ignore", "exclude")
_NUMBERS = ("max-file-size", "jobs", "tolerance")
_FLAGS = ("unsafe-fixes", "check")
_TABLES = ("per-file-ignores", )
KEYS = (*_TEXTS, *_LISTS, *_NUMBERS, *_FLAGS, *_TABLES)


def find(start: str) -> str | None:
    """The pyproject.toml of a folder or of the nearest folder above it that has one."""
    folder = os.path.realpath(start)
    while True:
        path = os.path.join(folder, "pyproject.toml")
        if os.path.isfile(path):
            return path
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above


def _parse(path: str) -> dict:
    with open(path, "rb") as file:
        data = file.read()
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        try:
            import tomli as tomllib
        except ModuleNotFoundError:
            if b"tool.anyaccel" not in data:
                return {}
            raise UsageError(
                f"cannot read {quoted_text(path)}: Python 3.10 needs the package tomli. Run: pip install 'anyaccel[port]'"
            ) from None
    try:
        return tomllib.loads(data.decode())
    except ValueError as error:
        raise UsageError(f"{quoted_text(path)} is not valid TOML: {quoted_text(error)}") from error


def _is_list(value) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _check(key: str, value, path: str) -> None:
    kinds = ((_TEXTS, "a string", isinstance(value, str)), (_LISTS, "a list of strings", _is_list(value)),
             (_NUMBERS, "a number", isinstance(value, (int, float)) and not isinstance(value, bool)),
             (_FLAGS, "true or false", isinstance(value, bool)), (_TABLES, "a table of lists of strings", isinstance(value, dict)
                                                                  and all(map(_is_list, value.values()))))
    for keys, kind, ok in kinds:
        if key in keys and not ok:
            raise UsageError(f"{quoted_text(path)}: tool.anyaccel.port.{key} is invalid: got {quoted_text(value)}, expected {kind}")


def read(path: str) -> dict:
    """The settings of a file, by key. Raises UsageError."""
    try:
        tool = _parse(path).get("tool", {})
    except OSError as error:
        raise UsageError(f"cannot read {quoted_text(path)}: {error.strerror}") from error
    section = tool.get("anyaccel", {}) if isinstance(tool, dict) else {}
    section = section.get("port", {}) if isinstance(section, dict) else {}
    if not isinstance(section, dict):
        raise UsageError(f"{quoted_text(path)}: tool.anyaccel.port is not a table")
    for key, value in section.items():
        if key not in KEYS:
            raise UsageError(
                f"{quoted_text(path)}: unknown key {quoted_text(key)} in tool.anyaccel.port. Its keys are {', '.join(KEYS)}.")
        _check(key, value, path)
    return section


def rule_ids(patterns: list[str], where: str) -> frozenset[str]:
    """The rules that a list of ids and patterns such as `cuda-amp-*` names. Raises UsageError."""
    import difflib
    import fnmatch
    ids = set()
    for pattern in patterns:
        matching = {rule for rule in rules.BY_ID if fnmatch.fnmatchcase(rule, pattern)}
        if not matching:
            near = difflib.get_close_matches(pattern, rules.BY_ID, 1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(f"{where}: no rule is named {quoted_text(pattern)}.{hint} `anyaccel port --rules` lists the rules.")
        ids |= matching
    return frozenset(ids)
