"""Finds CUDA dependencies in shell scripts, Dockerfiles and Makefiles.

A small tokenizer separates comments, quoted texts and here-documents from commands. All findings
need a manual decision, so nothing is replaced.
"""

from __future__ import annotations

import re

from . import gpu_names, matching, packages
from .findings import Finding
from .rules import BY_ID, BY_NAME

_TOKEN = re.compile(
    r"""
    \\. | (?P<single>'[^']*') | (?P<double>"(?:[^"\\]|\\.)*") | (?P<comment>(?<![^\s;&|(`])\#[^\n]*) |
    (?P<here><<-?[ \t]*(?P<quote>['"\\]?)(?P<mark>[A-Za-z_]\w*)['"]?)
    """, re.X | re.S)
ENVIRONMENT = (r"(?:FORCE_CUDA|NVCC_(?:PREPEND_|APPEND_)?FLAGS|"
               r"(?:CUDA|NCCL|TORCH_CUDA|PYTORCH_CUDA|TORCH_NCCL|CUDNN|CUBLAS|NVTE)_[A-Z0-9][A-Z0-9_]*|"
               r"NVIDIA_(?:VISIBLE_DEVICES|DRIVER_CAPABILITIES|TF32_OVERRIDE|REQUIRE_\w+|DISABLE_REQUIRE|MIG_\w+))")
_TOOLS = ("nvidia-smi|nvcc|nsys|ncu|nv-nsight-cu-cli|nvprof|cuda-gdb|compute-sanitizer|cuda-memcheck|dcgmi|"
          "nvidia-docker2?|nvidia-ctk|cuobjdump|nvtop|nvidia-modprobe")
# Names of bitsandbytes' optimizers in transformers.
OPTIMIZER = (r"(?:paged_(?:adam|lion|ademamix)\w*|\w+_bnb(?:_(?:8|32)bit)?|"
             r"(?:adamw?|lion|sgd|rmsprop|lamb|lars|ademamix)_?8bit)")
_VALUE = r"""(?:=|\s+\\?\s*)["']?"""
_CANDIDATE = re.compile(
    rf"""
    (?P<index>{packages.INDEX.pattern}) |
    (?P<image>\bnvcr\.io/[\w./:${{}}-]+|(?<![\w./-])nvidia/(?:cuda|opengl|cudagl)\b[\w./:${{}}-]*|
        (?<=FROM\s)[ \t]*(?:[\w.-]{{1,100}}/){{0,9}}[\w.-]{{1,100}}:[\w.-]*(?:cuda|cu1\d)[\w.-]*|
        (?<![\w./-])pytorch/pytorch:[\w.-]*cuda[\w.-]*) |
    (?P<backend>(?<![\w.-])(?:--?[\w-]{{0,40}}backend|[\w.]{{0,60}}backend){_VALUE}(?:cpu:gloo,cuda:)?nccl\b["']?) |
    (?P<device>(?<![\w.-])(?:--?[\w.-]{{0,40}}(?:device|dev|accelerator|platform|map[-_]location)s?|-d|
        (?<!\$)[\w.]{{0,60}}device){_VALUE}cuda(?::[\w${{}}]+)?["']?(?![\w.-])|
        (?<!\S)--(?:use[-_]?|no[-_]|enable[-_]|with[-_]|disable[-_])?cuda(?:=\S+)?(?![\w-])|
        (?<![\w.$-])(?:[\w.]{{0,60}}\.)?(?:use_|no_)cuda=(?:\w+)) |
    (?P<optimizer>(?<![\w.-])(?:--?[\w-]{{0,40}}optim\w*|[\w.]{{0,60}}optim\w*){_VALUE}{OPTIMIZER}["']?(?![\w.-])) |
    (?P<attention>(?<![\w.-])(?:--?[\w-]{{0,40}}|[\w.]{{0,60}})attn\w*{_VALUE}flash_attention_[23]["']?) |
    (?P<xformers>(?<!\S)--(?:enable_|use_|with_)?xformers(?:_memory_efficient_attention)?(?![\w-])) |
    (?P<quantization>(?<!\S)--load[-_]in[-_][48]bit(?![\w-])(?!{_VALUE}(?:[Ff]alse|0)\b)) |
    (?P<installer>(?<![\w-])(?:cuda-(?:repo|keyring|archive|repository)\b|cuda-\*-keyring|cuda[-_][\w.${{}}-]{{0,100}}
        \.(?:pin|deb|rpm|run|exe|repo|gpg)\b|nvidia-container-toolkit|libnvidia-container|
        NVIDIA-Linux-|gpu_driver|nvidia-driver-)[\w.${{}}*/-]*) |
    (?P<gpus>(?<!\S)--gpus{_VALUE}(?P<count>[^\s"']+)["']?) |
    (?P<runtime>--runtime[=\s]nvidia\b) |
    (?P<path>(?<![\w./])/(?:(?:usr/local|opt|usr/lib)/cuda(?!\w)|opt/nvidia/)
        (?:[\w./*-]|\$\{{\{{[^}}\n]*\}}\}}|\$\{{\w+\}}|\$\w+)*) |
    (?P<python>\btorch\.(?:cuda|version\.cuda|backends\.cud\w+)\b(?:\.\w+)*) |
    (?P<repository>{packages.REPOSITORY.pattern}) |
    (?P<define>(?<!\S)-D\s?\w*(?:CUDA|NCCL|CUDNN)\w*(?::\w+)?(?:=[^\s"']*)?) |
    (?P<tool>\$[({{]?NVCC[)}}]?(?![\w])|(?<![\w.$/@-])(?:[\w${{}}./-]{{1,100}}/bin/)?(?:{_TOOLS})(?![\w.=/-])) |
    (?P<environment>(?<![A-Za-z0-9_-]){ENVIRONMENT}(?![A-Za-z0-9_]))
    """, re.X)
# The groups of the pattern with their rules. Empty: the rule depends on the context.
_KINDS = {
    "index": "package-index",
    "image": "container-image",
    "backend": "backend-option",
    "device": "device-option",
    "optimizer": "bitsandbytes-optimizer",
    "attention": "flash-attention-setting",
    "xformers": "xformers",
    "quantization": "bitsandbytes-quantization",
    "installer": "cuda-installer",
    "gpus": "",
    "runtime": "container-gpus",
    "path": "cuda-path",
    "python": "embedded-python",
    "repository": "package-cuda-only",
    "define": "cmake-variable",
    "tool": "nvidia-tool",
    "environment": "",
}
_WRITTEN = re.compile(r"\|\s*(?:sudo\s+)?(?:tee|bash|sh)\b|>>?\s*[\"']?(?:/etc/|~/|\$\{?(?:HOME|GITHUB_ENV|GITHUB_PATH)\b)")
_INSTALL = re.compile(r"\b(?:pip[\d.]*|uv|poetry|pipx|pdm)\b[^\n]*?\b(?:install|add)\b|"
                      r"\b(?:conda|mamba|micromamba)\b[^\n]*?\b(?:install|create)\b|"
                      r"\b(?:apt|apt-get|yum|dnf|zypper|apk|brew)\b[^\n]*?\b(?:install|add)\b")  # yapf: disable
# Commands that install the project with extras, and possibly run a program.
_EXTRAS = re.compile(r"\b(?:uv|poetry|pdm|pixi)\b[^\n]*?\b(?:install|add|sync|run|lock|export)\b")
_EXTRA = re.compile(r"""(?<!\S)(?:--extras?|-E)(?:=|\s+)(?P<names>"[^"]*"|'[^']*'|[\w.,-]+)""")
_DIRECTIVE = re.compile(r"(?m)^[ \t]*#(?:SBATCH|PBS|BSUB|COBALT|\$)[ \t][^\n]*")
_REQUEST = re.compile(r"""(?<!\S)(?:--?(?:gres|constraint|gpus(?:-per-\w+)?|gpu[-_]type)(?:=|\s+)|-[CGl]\s*)["']?([^\s"']+)["']?""")
_SUBMIT = re.compile(r"\b(?:srun|sbatch|salloc|qsub|bsub)\b")
_ECHO = re.compile(
    r"(?:^|(?<=[;&|({\n`!@])|\b(?<=then)|\b(?<=do)|\b(?<=else))[ \t]*"
    r"(?:echo|printf|print|cat|LABEL|logger|die|warn|info|error|log)\b(?=[ \t])"
)


def find(text: str, file: str, target: str) -> list[Finding]:
    """Return the findings in a shell script, a Dockerfile or a Makefile."""
    source = matching.Source(text, file, target)
    scan(source, 0, len(text))
    for directive in _DIRECTIVE.finditer(text):  # a comment for the shell
        _requests(source, directive.start(), directive[0])
    return source.result()


def fix(text: str, findings: list[Finding], target: str) -> str:
    return matching.apply(text, [edit for finding in findings for edit in finding.edits])


def scan(source: matching.Source, start: int, end: int):
    """Add the findings in a part of a file that contains commands."""
    text = source.text[start:end]
    code, quoted = _tokens(text)
    taken: list[tuple[int, int]] = []
    seen: set[tuple[int, str]] = set()
    for a, b in _statements(code):
        _extras(source, start, code, a, b, taken)
        _install(source, start, text, code, a, b, taken)
        if _SUBMIT.search(code, a, b):
            _requests(source, start + a, code[a:b])
    for match in _CANDIDATE.finditer(code):
        if any(match.start() < b and a < match.end() for a, b in taken) or not _command(code, quoted, match):
            continue
        _add(source, start, code, match, seen)


def _tokens(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without comments, and the spans of quoted texts."""
    parts, quoted, at, position = [], [], 0, 0
    while match := _TOKEN.search(text, position):
        position = match.end()
        if match["comment"]:
            parts += (text[at:match.start()], " " * len(match[0]))
            at = match.end()
        elif match["single"] or match["double"]:
            quoted.append(match.span())
        elif match["here"]:
            body = text.find("\n", position)
            stop = re.compile(rf"^[ \t]*{match['mark']}[ \t]*$", re.M).search(text, body) if body != -1 else None
            if stop is not None:
                parts.append(text[at:body])
                comment = r"(?m)(?:^|(?<=\s))#.*$" if "python" in text[text.rfind("\n", 0, match.start()) +
                                                                       1:match.start()] else r"(?m)^[ \t]*#.*$"
                parts.append(re.sub(comment, lambda m: " " * len(m[0]), text[body:stop.start()]))
                at = position = stop.start()
    parts.append(text[at:])
    return "".join(parts), quoted


def _statements(code: str):
    """The spans of logical lines."""
    start = 0
    for match in re.finditer(r"(?<!\\)\n|&&|\|\||;", code):
        yield start, match.start()
        start = match.end()
    yield start, len(code)


def _install(source: matching.Source, base: int, text: str, code: str, a: int, b: int, taken: list[tuple[int, int]]):
    """The packages of `pip install`, `conda install` and `apt-get install`."""
    match = _INSTALL.search(code.replace("\\\n", "  ")[a:b] if "\\\n" in code[a:b] else code[a:b])
    if match is None or _ECHO.match(code[a:a + match.start()].lstrip() + " "):
        return
    conda = bool(re.search(r"conda|mamba", match[0]))
    channel = False
    # Variables are part of a name: cuda-${{ matrix.cuda-version }}.
    rest = re.sub(r"\$\{\{[^}\n]*\}\}|\$\{\w+\}|(?<=[\w-])\$\w+", lambda m: "0" * len(m[0]), code[a + match.end():b])
    for word in re.finditer(r"""(?:[^\s"'\\]|\\.|"[^"]*"|'[^']*')+""", rest):
        value = word[0].strip("\"'")
        first = a + match.end() + word.start() + word[0].find(value)
        last = first + len(value)
        if any(start < last and first < end for start, end in taken):
            continue
        if conda and channel and value == "nvidia":
            source.add(BY_ID["package-channel"], base + first, base + last)
            taken.append((first, last))
        elif conda and re.match(r"nvidia(?:/\S+)?::", value):
            source.add(BY_ID["package-channel"], base + first, base + last)
            taken.append((first, last))
        elif not value.startswith(("-", "$", "http")) and not channel and (found := packages.of(value)):
            rule, replacement = found
            source.add(rule, base + first, base + last, replacement=replacement)
            taken.append((first, last))
        channel = value in ("-c", "--channel")


def _extras(source: matching.Source, base: int, code: str, a: int, b: int, taken: list[tuple[int, int]]):
    """Extras with CUDA packages: `uv sync --extra gpu`."""
    command = _EXTRAS.search(code, a, b)
    if command is None or _ECHO.match(code[a:command.start()].lstrip() + " "):
        return
    for match in _EXTRA.finditer(code, command.end(), b):
        if any(packages.EXTRA.fullmatch(extra) for extra in re.split(r"[ ,]+", match["names"].strip("\"'"))):
            source.add(BY_ID["package-extra"], base + match.start(), base + match.end())
            taken.append(match.span())


def _requests(source: matching.Source, base: int, command: str):
    """Device models in the options of a job scheduler: `--gres=gpu:a100:4`."""
    for match in _REQUEST.finditer(command):
        if gpu_names.REQUEST.search(match[1]):
            source.add(BY_ID["scheduler-device"], base + match.start(), base + match.end())


def _command(code: str, quoted: list[tuple[int, int]], match: re.Match) -> bool:
    """Whether a match is part of a command, and not of text that is only printed."""
    start = match.start()
    line = max(code.rfind("\n", 0, start) + 1, start - 2000)
    expanded = code[max(0, start - 2):start].endswith(("$", "${", "$("))
    shown = None
    for shown in _ECHO.finditer(code, line, start):
        pass
    echoed = shown is not None and not re.search(r"[;|&]|\$\(|>", _unquoted(code[shown.end():start]))
    inside = next(((a, b) for a, b in quoted if a < start < b), None)
    if echoed and _WRITTEN.search(code, start, code.find("\n", start) if "\n" in code[start:] else len(code)):
        echoed = False
    if match.lastgroup == "python" or match["python"]:
        return not echoed
    if echoed:
        return expanded or bool(re.search(r"(?:\$\(|`)[^)`]*$", code[shown.end():start]))
    if inside is None:
        return True
    a, b = inside
    if re.search(r"(?:-l?c|ssh\s+\S+|eval|--wrap[= ]|-lc|bash|CMD|command)\s*\[?\s*$",
                 code[max(line, a - 30):a]) or "\n" in code[a:b]:
        return True
    if match["environment"]:
        return expanded or start == a + 1
    if match["tool"]:
        return bool(re.search(r"(?:\$\(|`)[^)`]*$", code[a:start])) or start == a + 1 and match.end() == b - 1
    return True


def _unquoted(text: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"?", "", text)


def _add(source: matching.Source, base: int, code: str, match: re.Match, seen: set[tuple[int, str]]):
    start, end = match.span()
    kind = next(kind for kind in _KINDS if match[kind])
    line = code.rfind("\n", 0, start) + 1
    statement = code[max(line, start - 2000):start]
    if kind == "environment":
        rule = BY_NAME["env:CUDA_VISIBLE_DEVICES"] if match[0] == "CUDA_VISIBLE_DEVICES" else BY_ID["cuda-variable"]
        if rule.id == "visible-devices":
            value = re.compile(r"=\"[^\"\n]*\"|='[^'\n]*'|=[^\s;&|\"')]*").match(code, end)
            end = value.end() if value and not code[max(0, start - 2):start].endswith(("$", "${")) else end
    elif kind == "gpus":
        if re.search(r"\b(?:srun|sbatch|salloc)\b", statement):
            return
        docker = re.search(r"\b(?:docker|podman|nerdctl|singularity|apptainer)\b", statement) or match["count"].startswith(
            ("all", "device", "'", '"'))
        rule = BY_ID["container-gpus" if docker else "config-gpus"]
    else:
        rule = BY_ID[_KINDS[kind]]
    if kind in ("path", "installer") and re.search(r"\bCUDA_\w+[= ][\"']?$", statement):
        return  # the variable is reported
    if kind == "installer":  # the finding covers the whole word
        start -= len(re.search(r"[\w./${}*-]*$", statement)[0])
    key = (line, match[0] if kind in ("environment", "python") else kind if kind in ("path", "installer") else f"{kind}{start}")
    if key in seen:
        return
    seen.add(key)
    start += len(match[0]) - len(match[0].lstrip())
    source.add(rule, base + start, base + end, severity=rule.severity)
