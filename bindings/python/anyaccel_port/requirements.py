"""Finds CUDA packages in requirements files, conda environments, setup.cfg, pyproject.toml and
Pipfile."""

from __future__ import annotations

import os
import re

from . import config, matching, packages
from .findings import Finding
from .rules import BY_ID

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")
_TOML_DEPENDENCIES = re.compile(
    r"(?:.*\.)?(?:dependencies|dev-dependencies|optional-dependencies|dependency-groups|packages|dev-packages)(?:\..*)?$")

_CUDA_INDEX = re.compile(r"(?:^|[-_])cu\d{2,3}$")
_TOML_EXTRAS = re.compile(r"(?:.*\.)?(?:optional-dependencies|dependency-groups|extras)$")


def find(text: str, file: str, target: str) -> list[Finding]:
    """Return the findings in a list of packages, and in the other settings of the same file."""
    source = matching.Source(text, file, target)
    name = os.path.basename(file).lower()
    if name.endswith((".yml", ".yaml")):
        _conda(source)
    elif name.endswith(".toml") or name == "pipfile":
        _toml(source)
    elif name.endswith(".cfg"):
        _setup_cfg(source)
    else:
        for start, line in _lines(text):
            _requirement(source, start, line)
    if name.endswith((".yml", ".yaml", ".toml", ".cfg")):
        taken = [(f.start, f.end) for f in source.findings]
        source.findings += [f for f in config.find(text, file, target) if not any(f.start < b and a < f.end for a, b in taken)]
    return source.result()


def fix(text: str, findings: list[Finding], target: str) -> str:
    return matching.apply(text, [edit for finding in findings for edit in finding.edits])


def _lines(text: str):
    """The lines without comments, with their offsets."""
    at = 0
    for line in text.splitlines(keepends=True):
        yield at, _COMMENT.sub("", line.rstrip("\r\n"))
        at += len(line)


def _requirement(source: matching.Source, start: int, line: str):
    """A line of a requirements file, or an entry of a list of packages."""
    stripped = line.strip().rstrip("\\").rstrip()
    start += len(line) - len(line.lstrip())
    index = packages.INDEX.search(stripped)
    if index and (stripped.startswith(("-", "http")) or "://" in stripped.split("@")[0]):
        source.add(BY_ID["package-index"], start, start + len(stripped))
        return
    if repository := packages.REPOSITORY.search(stripped):
        source.add(BY_ID["package-cuda-only"], start + repository.start(), start + repository.end())
        return
    spec = re.split(r"\s+(?:--|\\)", stripped)[0]
    if editable := re.match(r"(?:-e|--editable)[ =]\s*", spec):
        start, spec = start + editable.end(), spec[editable.end():]
    if not spec.startswith("-") and (found := packages.of(spec)):
        rule, replacement = found
        source.add(rule, start, start + len(spec), replacement=replacement)


def _conda(source: matching.Source):
    section = ""
    for start, line in _lines(source.text):
        if key := re.match(r"\s*(?:- )?(channels|dependencies|pip|name|prefix|variables)\s*:", line):
            section = key[1]
        item = re.match(r"\s*-\s+(?![\w-]+\s*:\s*$)", line)
        if item is None:
            continue
        value = line[item.end():].strip()
        quote = len(value) - len(value.lstrip("\"'"))
        first = start + item.end() + (len(line[item.end():]) - len(line[item.end():].lstrip())) + quote
        value = value.strip("\"'")
        if section == "channels":
            if value == "nvidia" or value.startswith("nvidia/"):
                source.add(BY_ID["package-channel"], first, first + len(value))
        else:
            bare = value.split("::")[-1]
            spec = re.sub(r"^([\w.-]+)\s+(?=[\d=<>*])", r"\1=", bare)
            if value.startswith("nvidia"):
                source.add(BY_ID["package-channel" if "::" in value and not packages.of(spec) else "package-nvidia"], first,
                           first + len(value))
            elif bare == spec:
                _requirement(source, first + len(value) - len(bare), bare)
            elif found := packages.of(spec):
                source.add(found[0], first, first + len(value))


def _toml(source: matching.Source):
    section, key, depth = "", "", 0
    for start, line in _lines(source.text):
        if depth == 0 and (header := re.match(r"\s*\[{1,2}\s*([^\[\]\s][^\[\]]*)\]{1,2}\s*$", line)):
            section, key = header[1].strip().replace('"', ""), ""
            continue
        pair = re.match(r"\s*([\w.\"-]+)\s*=\s*", line) if depth == 0 else None
        if pair:
            key = pair[1].strip('"')
        value = line[pair.end():] if pair else line
        at = start + (pair.end() if pair else 0)
        table = bool(_TOML_DEPENDENCIES.match(section))
        if pair and _TOML_EXTRAS.match(section) and packages.EXTRA.fullmatch(key):
            source.add(BY_ID["package-extra"], start + line.index(pair[1]), start + line.index(pair[1]) + len(pair[1]))
        array = (depth > 0 or value.startswith("[")) and (table or key in ("dependencies", "requires")
                                                          or key.endswith("dependencies"))
        for string in re.finditer(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'", value):
            content = string[1] if string[1] is not None else string[2]
            first = at + string.start() + 1
            if array:
                _requirement(source, first, content)
            elif _CUDA_INDEX.search(content) and (re.search(r"\bindex\s*=\s*$", line[:at - start + string.start()])
                                                  or key == "name" and section.endswith(("index", "source"))):
                source.add(BY_ID["package-index"], first, first + len(content))
            elif packages.INDEX.search(content):
                source.add(BY_ID["package-index"], first, first + len(content))
            elif table and pair and packages.LOCAL.search(content):
                source.add(BY_ID["package-cuda-build"], first, first + len(content), replacement=packages.LOCAL.sub("", content))
        if table and pair and not array and (found := packages.of(key)):
            source.add(found[0], start + line.index(pair[1]), start + len(line.rstrip()))
        depth += len(re.findall(r"[\[]", _bare(value))) - len(re.findall(r"[\]]", _bare(value)))
        depth = max(depth, 0)


def _bare(text: str) -> str:
    return re.sub(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'", "", text)


def _setup_cfg(source: matching.Source):
    section, key = "", ""
    for start, line in _lines(source.text):
        if header := re.match(r"\[([^\]]+)\]", line):
            section, key = header[1], ""
        elif pair := re.match(r"([\w.-]+)\s*[=:]\s*(.*)", line):
            key = pair[1]
            if section == "options.extras_require" and packages.EXTRA.fullmatch(key):
                source.add(BY_ID["package-extra"], start, start + len(key))
            if _wanted(section, key) and pair[2]:
                _requirement(source, start + pair.start(2), pair[2])
        elif line.strip() and line[:1].isspace() and _wanted(section, key):
            _requirement(source, start, line)


def _wanted(section: str, key: str) -> bool:
    return section == "options.extras_require" or key in ("install_requires", "requires", "setup_requires", "tests_require")
