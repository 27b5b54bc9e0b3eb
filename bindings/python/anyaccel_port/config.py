"""Finds CUDA dependencies in YAML, JSON, TOML and INI files: device names, backends, variables,
images, and commands in scripts.

Nothing is fixed automatically, because the program that reads the file must understand the new
value.
"""

from __future__ import annotations

import json
import os
import re

from . import gpu_names, matching, packages, shell
from .findings import Finding, SourceError
from .rules import BY_ID, BY_NAME

_DEVICE_KEY = re.compile(
    r"(?i).*(?:device|accelerator|map_location|location|platform|(?:^|[._-])dev|default|choices|train_on|run_on|place).*")
_SWITCH = re.compile(
    r"(?i)(?:[\w.]*[._-])?(?:use|no|with|enable|enabled|disable|on|is|to)?[._-]?cuda(?:[._-](?:enabled|available))?")
_BOOLEAN = re.compile(r"(?i)true|false|yes|no|on|off|0|1")
_SCRIPT_KEY = re.compile(r"(?i)run|script|scripts|before_script|after_script|command|commands|cmd|cmds|args|entrypoint|setup|"
                         r"bash|shell|"
    r"steps|install|before_install|"
                         r"postCreateCommand|job_script|setup_commands|\w*_commands?|\w*_cmd|test|tests|entry")  # yapf: disable
_ENVIRONMENT = re.compile(shell.ENVIRONMENT)
_IMAGE = re.compile(r"nvcr\.io/\S+|nvidia/cuda\S*|(?:[\w.-]+/)*[\w.-]+:[\w.-]*(?:cuda|cu1\d\d)[\w.-]*")
_STRATEGY = re.compile(r"(?i)distrib\w*_backend")
_VERSIONS = re.compile(r"(?i)(?:\w+[._-])?cuda[._-]?versions?|cuda|cu[._-]?versions?|desired_cuda")
_GPUS = re.compile(r"-?\d+|[\"']?\d(?:, ?\d)*,?[\"']?|\[[\d, ]*\]")
_VERSION = re.compile(r"cu\d{2,3}|\d{1,2}\.\d+(?:\.\d+)?")
_LIGHTNING = re.compile(r"(?i)lightning|trainer|distrib\w*_backend|max_epochs|accumulate_grad|strategy")
_CMAKE = re.compile(r"CMAKE_CUDA_\w+|CUDA_\w+")


def find(text: str, file: str, target: str) -> list[Finding]:
    """Return the findings in a configuration file. Raises SourceError for JSON that cannot be parsed."""
    source = matching.Source(text, file, target)
    name = os.path.basename(file).lower()
    visitor = _Values(source)
    if name.endswith(".json"):
        _json(text, visitor)
    elif name.endswith((".yaml", ".yml")):
        _yaml(text, visitor)
    else:
        _assignments(text, visitor)
    return source.result()


def fix(text: str, findings: list[Finding], target: str) -> str:
    return matching.apply(text, [edit for finding in findings for edit in finding.edits])


class _Values:
    """Receives the values of a file with their keys."""

    def __init__(self, source: matching.Source):
        self.source = source
        self.lightning = bool(_LIGHTNING.search(source.text))

    def add(self, rule: str, start: int, end: int):
        self.source.add(BY_ID[rule], start, end, severity=BY_ID[rule].severity)

    def environment(self, name: str, start: int, end: int):
        rule = BY_NAME["env:CUDA_VISIBLE_DEVICES"] if name == "CUDA_VISIBLE_DEVICES" else BY_ID["cuda-variable"]
        self.source.add(rule, start, end, severity=rule.severity)

    def value(self, key: str, start: int, value: str, value_start: int, in_list: bool = False):
        """A scalar. `start`: where the key begins."""
        end = value_start + len(value)
        if not value:
            return
        stop = end
        if (quote := self.source.text[end:end + 1]) in ("'", '"') and self.source.text[value_start - 1] == quote:
            stop, start = end + 1, start - (in_list and start == value_start)
        if _ENVIRONMENT.fullmatch(key) and not in_list:
            self.environment(key, start, stop)
        elif key.lower() == "name" and _ENVIRONMENT.fullmatch(value):
            self.environment(value, value_start, end)
        elif key.startswith("CMAKE_CUDA"):
            self.add("cmake-variable", start, stop)
        elif key == "nvidia.com/gpu":
            self.add("config-cuda-resource", start, stop)
        elif re.fullmatch(r"cuda:(?:\d+|\$\{\w+\})", value) or value == "cuda" and _DEVICE_KEY.fullmatch(key):
            self.add("config-device", start, stop)
        elif key.lower() == "accelerator" and value == "gpu" and self.lightning:
            self.add("lightning-accelerator", start, stop)
        elif gpu_names.KEY.fullmatch(key) and len(value) < 100 and gpu_names.REQUEST.search(value):
            self.add("scheduler-device", start, stop)
        elif value == "nccl" or re.fullmatch(r"cpu:gloo,cuda:nccl", value):
            self.add("config-backend", start, stop)
        elif _SWITCH.fullmatch(key) and _BOOLEAN.fullmatch(value) and not in_list:
            self.add("config-switch", start, stop)
        elif key.lower() == "gpus" and not in_list and self.lightning and _GPUS.fullmatch(value):
            self.add("config-gpus", start, stop)
        elif _STRATEGY.fullmatch(key) and re.fullmatch(r"dp|ddp\w*|horovod", value):
            self.add("config-gpus", start, stop)
        elif _VERSIONS.fullmatch(key) and _VERSION.fullmatch(value) and not in_list:
            self.add("config-cuda-version", start, stop)
        elif re.search(r"(?i)optim", key) and re.fullmatch(shell.OPTIMIZER, value):
            self.add("bitsandbytes-optimizer", start, stop)
        elif re.fullmatch(r"flash_attention_[23]", value):
            self.add("flash-attention-setting", start, stop)
        elif re.fullmatch(r"load_in_[48]bit", key) and value.lower() == "true":
            self.add("bitsandbytes-quantization", start, stop)
        elif re.fullmatch(r"(?:enable_|use_)?xformers(?:_memory_efficient_attention)?", key) and value.lower() == "true":
            self.add("xformers", start, stop)
        elif key.lower() in ("runtime", "driver") and value == "nvidia":
            self.add("container-gpus", start, stop)
        elif re.fullmatch(r"(?i)\w*image|container|from|\w*docker\w*", key) and _IMAGE.fullmatch(value) or re.match(
                r"nvcr\.io/|nvidia/cuda:", value):
            self.add("container-image", value_start, end)
        elif in_list and (match := re.fullmatch(rf"({shell.ENVIRONMENT})(?:=.*)?", value)) and not _SCRIPT_KEY.fullmatch(key):
            self.environment(match[1], value_start, end)
        elif _SCRIPT_KEY.fullmatch(key) or "\n" in value:
            shell.scan(self.source, value_start, end)
        elif match := packages.INDEX.search(value):
            self.add("package-index", value_start + match.start(), value_start + match.end())


def _scalar(text: str) -> tuple[str, int]:
    """A plain or quoted scalar without its comment and quotes, and where it starts."""
    if match := re.match(r"\s*\"((?:[^\"\\]|\\.)*)\"|\s*'((?:[^']|'')*)'", text):
        group = 1 if match[1] is not None else 2
        return match[group], match.start(group)
    plain = re.split(r"(?:^|\s)#", text, maxsplit=1)[0]
    return plain.strip(), len(plain) - len(plain.lstrip())


_YAML_LINE = re.compile(r"(?P<indent>[ \t]*)(?P<dash>(?:-[ \t]+)*)"
                        r"(?:(?P<key>\"[^\"\n]*\"|'[^'\n]*'|-{0,2}[\w$][^\n:#{}\[\],&*!|>%@`]*?(?::[^\s:]+)*)[ \t]*:(?=[ \t\r\n]|"
                        r"$)[ \t]*)?(?P<value>[^\r\n]*)")


def _yaml(text: str, values: _Values):
    """Read YAML line by line, which also works for templates and files with several documents."""
    parents: list[tuple[int, str]] = []
    at = 0
    lines = text.splitlines(keepends=True)
    number = 0
    while number < len(lines):
        line = lines[number]
        start, at, number = at, at + len(line), number + 1
        match = _YAML_LINE.match(line)
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        indent = len(match["indent"]) + len(match["dash"])
        while parents and parents[-1][0] >= indent and not (match["dash"] and match["key"] is None
                                                            and parents[-1][0] == len(match["indent"])):
            parents.pop()
        key = match["key"]
        value, offset = _scalar(match["value"])
        where = start + match.start("value") + offset
        parent = parents[-1][1] if parents else ""
        if key is not None:
            name = key.strip("\"'")
            parents.append((indent, name))
        else:
            name = parent
        if re.fullmatch(r"[|>][+-]?\d?[+-]?", value):
            first = at
            while number < len(lines) and (not lines[number].strip()
                                           or len(lines[number]) - len(lines[number].lstrip()) > len(match["indent"])):
                at, number = at + len(lines[number]), number + 1
            if not re.fullmatch(r"(?i)description|help|summary|text|title|prompt|message|body|label|doc", name):
                shell.scan(values.source, first, at)
            continue
        names = {name for _, name in parents}
        if key is not None and "exclude" not in names and (rule := _listed(name, value, text[at:at + 2000], values)):
            values.add(rule, start + match.start("key"), start + len(line.rstrip()) if value else start + match.end("key") + 1)
            continue
        if "exclude" in names and _VERSIONS.fullmatch(name):
            continue  # a build matrix excludes this version
        if value[:1] in "{[" and value and match["value"].lstrip()[:1] in "{[":
            _flow(value, where, name, values)
            continue
        values.value(name, start + match.start("key") if key is not None else where, value, where, in_list=key is None)


def _listed(key: str, value: str, after: str, values: _Values) -> str:
    """The rule for a list that counts as one finding: CUDA versions, or Lightning's GPUs."""
    if value[:1] == "[":
        items = [item.strip(" \"'") for item in value[1:].split("]")[0].split(",")]
    elif not value:
        block = re.match(r"(?:[ \t]*-[ \t]+[^\n:]*(?:\n|$))+", after)
        items = [line.strip(" \t-\"'\r") for line in block[0].splitlines()] if block else []
    else:
        return ""
    if _VERSIONS.fullmatch(key) and any(_VERSION.fullmatch(item) for item in items):
        return "config-cuda-version"
    if key.lower() == "gpus" and not value and values.lightning and items and all(item.isdigit() for item in items):
        return "config-gpus"
    return ""


def _flow(text: str, base: int, key: str, values: _Values):
    """A flow mapping or sequence on one line: `{device: cuda}`, `[cuda, cpu]`."""
    scripts = bool(_SCRIPT_KEY.fullmatch(key))
    if key.lower() == "gpus":
        values.value(key, base, text, base)
    for match in re.finditer(
            r"(?:(?P<key>\"[^\"]*\"|'[^']*'|[\w.$/-]+)\s*:\s+)?(?P<value>\"(?:[^\"\\]|\\.)*\"|'[^']*'|"
            r"[^\s{}\[\],\"'][^{}\[\],]*)", text):
        value, offset = _scalar(match["value"])
        name = match["key"].strip("\"'") if match["key"] else key
        values.value(name, base + match.start(), value, base + match.start("value") + offset, in_list=match["key"] is None)
    if scripts:
        _arguments([m for m in re.finditer(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s\[\],\"']+)", text)], base, values)


def _arguments(words: list[re.Match], base: int, values: _Values):
    """`["--device", "cuda"]`: an option and its value as two words."""
    plain = [next(g for g in word.groups() if g is not None) for word in words]
    for number, (first, second) in enumerate(zip(plain, plain[1:])):
        device = re.fullmatch(r"--?[\w-]*(?:device|accelerator)s?", first) and re.fullmatch(r"cuda(?::\d+)?", second)
        rule = ("device-option" if device else
                "backend-option" if re.fullmatch(r"--?[\w-]*backend", first) and second == "nccl" else
                "container-gpus" if first == "--gpus" and second.startswith(("all", "device")) else "")  # yapf: disable
        if rule:
            values.add(rule, base + words[number].start(), base + words[number + 1].end())


def _assignments(text: str, values: _Values):
    """TOML and INI: `key = value`."""
    at, section = 0, ""
    for line in text.splitlines(keepends=True):
        start, at = at, at + len(line)
        if line.lstrip().startswith(("#", ";")):
            continue
        if header := re.match(r"\s*\[{1,2}([^\[\]]+)\]{1,2}\s*(?:#.*)?$", line):
            section = header[1]
            continue
        match = re.match(r"[ \t]*(?P<key>\"[^\"\n]*\"|[\w.-]+)[ \t]*[=:][ \t]*(?P<value>.*)", line)
        if match is None:
            continue
        key = match["key"].strip('"')
        raw = match["value"]
        if raw.startswith(("[", "{")):
            _flow(
                re.sub(r"\b([\w.-]+)\s*=\s*", lambda m: m[1] + ":" + " " *
                       (len(m[0]) - len(m[1]) - 1), raw) if raw[0] == "{" else raw, start + match.start("value"), key, values)
            continue
        value, offset = _scalar(raw)
        values.value(key, start + match.start("key"), value, start + match.start("value") + offset)


_JSON_TOKEN = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|//[^\n]*|/\*.*?(?:\*/|\Z)|[{}\[\],:]|[^\s{}\[\],:\"/]+", re.S)


def _json(text: str, values: _Values):
    _check_json(text)
    stack: list[tuple[str, str]] = []  # brackets and the keys that they belong to
    words: list[list[re.Match]] = []
    key, key_start, pending = "", 0, None
    for match in _JSON_TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            stack.append((token, key))
            words.append([])
        elif token in "}]":
            if pending is not None:
                _json_value(values, stack, key, key_start, pending)
            if stack:
                bracket, owner = stack.pop()
                found = words.pop()
                if bracket == "[" and re.fullmatch(r"(?i)\w*(?:args|command|cmd|entrypoint)", owner):
                    _arguments(found, 0, values)
            pending = None
        elif token == ":":
            if pending is not None:
                key, key_start, pending = pending[1] or "", pending.start(), None
        elif token == ",":
            if pending is not None:
                _json_value(values, stack, key, key_start, pending)
            pending = None
        elif not token.startswith("/"):
            pending = match
            if words and match[1] is not None:
                words[-1].append(match)


def _json_value(values: _Values, stack: list[tuple[str, str]], key: str, key_start: int, token: re.Match):
    in_list = bool(stack) and stack[-1][0] == "["
    name = stack[-1][1] if in_list else key
    value = token[1] if token[1] is not None else token[0]
    start = token.start(1) if token[1] is not None else token.start()
    if len(value) < 2000:
        values.value(name, start if in_list else key_start, value, start, in_list=in_list)


def _check_json(text: str):
    """Raise SourceError unless the text is JSON, one JSON value per line, or JSON with comments."""
    try:
        json.loads(text)
        return
    except RecursionError:
        raise SourceError("not JSON: nested too deeply", 1) from None
    except ValueError as error:
        line = getattr(error, "lineno", 0)
        message = str(error)
    if re.search(r"^\s*//|/\*|,\s*[}\]]", text, re.M) or re.search(r"\{\{|\{%|<%", text):
        return
    try:
        for row in text.splitlines():
            if row.strip():
                json.loads(row)
    except ValueError:
        raise SourceError(f"not JSON: {message}", line) from None
