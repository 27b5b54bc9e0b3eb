"""Extracts the signatures of DeepSpeed's op bindings from its C++ sources. Reads and writes the
file that stores them.

A signature is one line: `name(parameters) -> result`. A parameter that can be passed by keyword is
`name: kind`, followed by ` = default` if it has a default. A positional-only parameter is just its
kind.
"""
import ast
import pathlib
import re

# Binding sources for each op that we implement, relative to DeepSpeed's package folder. An op may
# have several implementations.
SOURCES = {
    "async_io": ["ops/csrc/aio/py_lib/py_ds_aio.cpp"],
    "cpu_adagrad": ["ops/csrc/adagrad/cpu_adagrad.cpp"],
    "cpu_adam": ["ops/csrc/adam/cpu_adam.cpp"],
    "cpu_lion": ["ops/csrc/lion/cpu_lion.cpp"],
    "deepspeed_ccl_comm": ["ops/csrc/cpu/comm/ccl.cpp"],
    "deepspeed_shm_comm": ["ops/csrc/cpu/comm/shm_interface.cpp"],
    "evoformer_attn": ["ops/csrc/deepspeed4science/evoformer_attn/attention.cpp"],
    "fp_quantizer": ["ops/csrc/fp_quantizer/fp_quantize.cpp"],
    "fused_adam": ["ops/csrc/adam/fused_adam_frontend.cpp", "ops/csrc/cpu/adam/fused_adam.cpp"],
    "fused_lamb": ["ops/csrc/lamb/fused_lamb_cuda.cpp"],
    "fused_lion": ["ops/csrc/lion/fused_lion_frontend.cpp"],
    "inference_core_ops": ["inference/v2/kernels/core_ops/core_ops.cpp"],
    "pin_memory": ["ops/csrc/pin_memory/py_ds_pin_memory.cpp"],
    "quantizer": ["ops/csrc/quantization/pt_binding.cpp"],
    "ragged_device_ops": ["inference/v2/kernels/ragged_ops/ragged_ops.cpp"],
    "ragged_ops": ["inference/v2/ragged/csrc/ragged_ops.cpp"],
    "random_ltd": ["ops/csrc/random_ltd/pt_binding.cpp"],
    "spatial_inference": ["ops/csrc/spatial/csrc/pt_binding.cpp"],
    "stochastic_transformer": ["ops/csrc/transformer/ds_transformer_cuda.cpp"],
    "transformer": ["ops/csrc/transformer/ds_transformer_cuda.cpp"],
    "transformer_inference": ["ops/csrc/transformer/inference/csrc/pt_binding.cpp"],
    "utils": ["ops/csrc/utils/py_ds_utils.cpp"],
}
# Binding sources of ops that we do not implement, and of vendor-specific builders that bind the
# same functions as the sources above.
LEFT_OUT = {
    "inference/v2/kernels/cutlass_ops/cutlass_ops.cpp": "InferenceCutlassBuilder requires CUTLASS",
    "ops/csrc/compile/init.cpp": "DeepCompileBuilder requires a CUDA toolkit and NCCL",
    "ops/csrc/cpu/lion/fused_lion.cpp": "No builder compiles it, and DeepSpeed's FusedLion does not pass its argument `mode`",
    "ops/csrc/gds/py_lib/py_ds_gds.cpp": "GDSBuilder requires GPUDirect Storage",
    "ops/csrc/xpu/adagrad/cpu_adagrad.cpp": "Only XPU's builder uses it; DeepSpeed's Python code calls the functions of cpu_adagrad",
    "ops/csrc/xpu/adam/fused_adam_frontend.cpp": "XPU's copy of fused_adam",
}
BINDS = re.compile(r"\b(PYBIND11_MODULE|TORCH_LIBRARY)\s*\(([^)]*)\)\s*\{")
INTEGERS = {"int", "int64_t", "int32_t", "uint32_t", "uint64_t", "uint8_t", "size_t", "long", "long long", "uintptr_t", "unsigned", "unsigned int",
            "intptr_t", "uint16_t"}
KINDS = {"Tensor": "Tensor", "bool": "bool", "float": "float", "double": "float", "string": "str", "char*": "str", "ScalarType": "dtype",
         "object": "object", "py::object": "object", "py::tuple": "tuple", "void": "None"}


class Unreadable(Exception):
    """Raised if the sources contain a construct that this parser does not support."""


def without_comments(text):
    strings_kept = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)
    return strings_kept.sub(lambda found: found.group() if found.group()[0] == '"' else " ", text)


def closing(text, start):
    """Return the index of the bracket that closes the one at `start`, skipping strings."""
    pairs = {"(": ")", "{": "}", "[": "]", "<": ">"}
    opening, end = text[start], pairs[text[start]]
    depth, i = 0, start
    while i < len(text):
        if text[i] == '"':
            i = re.compile(r'"(?:\\.|[^"\\])*"').match(text, i).end()
            continue
        if text[i] == opening:
            depth += 1
        elif text[i] == end and text[i - 1:i + 1] != "->":
            depth -= 1
            if depth == 0:
                return i
        i += 1
    raise Unreadable(f"missing {end} after {text[start:start + 60]!r}")


def split_arguments(text):
    """Split at commas outside of brackets."""
    parts, depth, begin, i = [], 0, 0, 0
    while i < len(text):
        if text[i] == '"':
            i = re.compile(r'"(?:\\.|[^"\\])*"').match(text, i).end()
            continue
        if text[i] in "([{<":
            depth += 1
        elif text[i] in ")]}" or (text[i] == ">" and text[i - 1] != "-"):
            depth -= 1
        elif text[i] == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
        i += 1
    last = text[begin:].strip()
    return parts + [last] if last else parts


def expand_macros(body):
    """Expand the function-like macros that a module's body defines."""
    body = body.replace("\\\n", " ")
    macros = dict((name, (parameters, text)) for name, parameters, text in re.findall(r"^[ \t]*#define (\w+)\(([^)]*)\)([^\n]*)", body, re.M))
    body = re.sub(r"^[ \t]*#[^\n]*$", "", body, flags=re.M)
    for name, (parameters, text) in macros.items():
        names = [one.strip() for one in parameters.split(",")]

        def expanded(found, names=names, text=text):
            values = dict(zip(names, split_arguments(found.group(1))))
            quoted = re.sub(r"#(\w+)", lambda one: f'"{values[one.group(1)]}"', text)
            return re.sub(r"\b(" + "|".join(names) + r")\b", lambda one: values[one.group()], quoted)

        body = re.sub(rf"\b{name}\(([^)]*)\)", expanded, body)
    return body


def kind_of(type_text):
    """Return the kind of a C++ type: Tensor, int, float, bool, str, object, dtype or None; X? if
    optional; X[] for a list.
    """
    text = re.sub(r"\b(const|at::|torch::|std::|c10::|inline|static)(?=\W|\w)", lambda found: "" if "::" in found.group() else " ", type_text)
    text = re.sub(r"\s+", " ", text.replace("&", " ")).replace(" *", "*").strip()
    text = re.sub(r"\b(at|torch|std|c10)::", "", text)
    if text in INTEGERS:
        return "int"
    if text in KINDS:
        return KINDS[text]
    outer = re.fullmatch(r"(\w+) ?<(.*)>", text)
    if outer and outer.group(1) == "vector":
        return kind_of(outer.group(2)) + "[]"
    if outer and outer.group(1) == "optional":
        return kind_of(outer.group(2)) + "?"
    if outer and outer.group(1) == "array":
        return kind_of(split_arguments(outer.group(2))[0]) + "[]"
    if outer and outer.group(1) in ("tuple", "pair"):
        return "(" + ", ".join(map(kind_of, split_arguments(outer.group(2)))) + ")"
    if text in ("quantize::Type", "Type"):
        return "QuantizationType"
    if re.fullmatch(r"[A-Z]\w*", text):
        return text  # an enumeration or a class in DeepSpeed, represented by its name
    raise Unreadable(f"unknown C++ type {type_text!r}")


def type_and_default(parameter):
    declared, _, default = parameter.partition("=")
    named = re.fullmatch(r"(.*[\s&*>])(\w+)\s*", declared.strip(), re.S)
    plain = named and not (named.group(2) in INTEGERS | set(KINDS) and named.group(1).strip() in ("const", "unsigned"))
    return kind_of(named.group(1) if plain else declared), default.strip()


class Sources:
    """Finds declarations of C++ functions near a binding source."""

    def __init__(self, package):
        self.package = package
        self._texts = {}

    def text(self, path):
        if path not in self._texts:
            self._texts[path] = without_comments(path.read_text(errors="replace"))
        return self._texts[path]

    def near(self, source):
        """Return the source, its includes, and the other files in its folder and in the header
        folders, in this order.
        """
        folders = [source.parent, self.package / "ops/csrc/includes", source.parent.parent / "includes", source.parent.parent]
        yield source
        for folder in folders:
            yield from (path for path in sorted(folder.glob("*")) if path.suffix in (".h", ".cpp", ".cuh", ".cu") and path != source)
        for path in sorted(source.parent.rglob("*.h")):
            yield path

    def function(self, source, name, wanted=None):
        """Return (result, parameters) of the function `name`, which may be Class::method, from its
        definition or declaration. `wanted` selects an overload by its parameters.
        """
        owner, _, last = name.rpartition("::")
        reason = ""
        for path in self.near(source):
            text = self.text(path)
            for found in re.finditer(rf"(?<![\w.>&]){re.escape(last)}\s*\(", text):
                end = closing(text, found.end() - 1)
                after = text[end + 1:end + 40].lstrip()
                before = re.search(r"([\w:<>,&*\s]*)$", re.sub(r"template\s*<[^>]*>", ";", text[max(0, found.start() - 200):found.start()])).group(1)
                before = re.sub(r"\w+::$", "", before.strip()).strip()
                result = re.sub(r"\b(virtual|static|inline)\b", "", before.split("\n\n")[-1]).strip()
                if not result or result.split()[-1] in ("return", "new", "else", ",") or not re.match(r"(const|override)?\s*[{;]|override|const", after):
                    continue
                if owner and not self._is_of(text, found.start(), owner, last):
                    continue
                try:
                    kinds = [type_and_default(one)[0] for one in split_arguments(text[found.end():end])]
                    if wanted in (None, kinds):
                        return kind_of(result), kinds
                except Unreadable as error:
                    reason = f": {error}"
        if owner and owner != self._base(source, owner):
            return self.function(source, f"{self._base(source, owner)}::{last}", wanted)
        raise Unreadable(f"{source.name}: no declaration of {name}{reason}")

    def _is_of(self, text, place, owner, last):
        if text[:place].rstrip().endswith(f"{owner}::"):
            return True
        for found in re.finditer(rf"\b(?:struct|class)\s+{owner}\b[^;{{]*\{{", text):
            if found.end() <= place < closing(text, found.end() - 1):
                return True
        return False

    def _base(self, source, owner):
        for path in self.near(source):
            found = re.search(rf"\b(?:struct|class)\s+{owner}\s*:\s*(?:public\s+)?(\w+)", self.text(path))
            if found:
                return found.group(1)
        return owner


def literal(text):
    """Return the combined value of adjacent string literals."""
    return "".join(re.findall(r'"((?:\\.|[^"\\])*)"', text))


def keyword_of(argument):
    """Return (name, default or None) for `"name"_a = default` or py::arg("name") = default,
    otherwise None.
    """
    found = re.fullmatch(r'(?:"(\w+)"_a|py(?:bind11)?::arg\("(\w+)"\))\s*(?:=\s*(.*))?', argument, re.S)
    if not found:
        return None
    default = found.group(3)
    if default is not None:
        default = {"true": True, "false": False}.get(default.strip(), default)
        default = repr(eval(default, {"__builtins__": {}}) if isinstance(default, str) else default)  # an arithmetic constant
    return found.group(1) or found.group(2), default


def definitions(body):
    """Return (class or None, method name, arguments) of each def() in a module's body, in order."""
    owner_name, owner_type = None, None
    i = 0
    pattern = re.compile(r'py::class_<(\w+)[^>]*>\(m, "(\w+)"\)|(?:pybind11|py)::enum_<[^>]*>\(m, "(\w+)"\)|\.value\("(\w+)"|(\bm)?\.def\(')
    while found := pattern.search(body, i):
        i = found.end()
        if found.group(1):
            owner_type, owner_name = found.group(1), found.group(2)
        elif found.group(3):
            owner_name = found.group(3)
        elif found.group(4):
            yield owner_name, None, found.group(4), []
        else:
            end = closing(body, i - 1)
            if found.group(5):
                owner_name, owner_type = None, None
            yield owner_name, owner_type, None, split_arguments(body[i:end])
            i = end


def signature_of(sources, source, owner, owner_type, arguments):
    """Return the signature of a def() as one line."""
    if arguments[0].startswith("py::init<"):
        name, bound = "__init__", arguments[0]
        types, result = split_arguments(bound[len("py::init<"):bound.rindex(">")]), "None"
        kinds = [kind_of(one) for one in types]
        rest = arguments[1:]
    else:
        name, bound, rest = literal(arguments[0]), arguments[1], arguments[2:]
        if cast := re.match(r"(?:py|pybind11)::overload_cast<", bound):
            end = closing(bound, cast.end() - 1)
            kinds = [kind_of(one) for one in split_arguments(bound[cast.end():end])]
            result = sources.function(source, re.search(r"&\s*([\w:]+)", bound[end:]).group(1), kinds)[0]
        elif bound.startswith("["):
            begin = bound.index("(")
            parameters = split_arguments(bound[begin + 1:closing(bound, begin)])[1 if owner_type else 0:]
            kinds = [type_and_default(one)[0] for one in parameters]
            called = re.search(r"return \w+\.(\w+)\(", bound)
            result = sources.function(source, f"{owner_type}::{called.group(1)}")[0]
        else:
            result, kinds = sources.function(source, re.fullmatch(r"&\s*([\w:]+)\s*(?:<.*>)?", bound).group(1))
    keywords = [found for found in map(keyword_of, rest) if found]
    if keywords and len(keywords) != len(kinds):
        raise Unreadable(f"{source.name}: {name} has {len(kinds)} parameters and {len(keywords)} names")
    shown = [f"{key}: {kind}" + (f" = {default}" if default is not None else "") for (key, default), kind in zip(keywords, kinds)] or kinds
    return f"{owner + '.' if owner else ''}{name}({', '.join(shown)}) -> {result}"


def read_source(sources, path):
    """Return the signatures that one binding source defines."""
    found = []
    text = sources.text(path)
    for block in BINDS.finditer(text):
        body = expand_macros(text[block.end():closing(text, block.end() - 1)])
        for owner, owner_type, value, arguments in definitions(body):
            if value is not None:
                found.append(f"{owner}.{value}")
                found.append(value)  # export_values() also adds the values to the module
            elif block.group(1) == "TORCH_LIBRARY":
                found.append(f"torch.ops.{block.group(2).split(',')[0]}.{literal(arguments[0])}")
            else:
                found.append(signature_of(sources, path, owner, owner_type, arguments))
    return list(dict.fromkeys(found))


def extract(package):
    """Return {op: signatures} for an installed DeepSpeed.

    Raise Unreadable if a binding source is in neither table.
    """
    package = pathlib.Path(package)
    sources = Sources(package)
    known = {path for paths in SOURCES.values() for path in paths} | set(LEFT_OUT)
    for path in sorted(package.rglob("*.cpp")):
        if BINDS.search(sources.text(path)) and path.relative_to(package).as_posix() not in known:
            raise Unreadable(f"{path.relative_to(package)} binds functions but is in no table; add it to SOURCES or LEFT_OUT")
    return {op: list(dict.fromkeys(line for path in paths for line in read_source(sources, package / path))) for op, paths in SOURCES.items()}


def to_text(version, ops):
    """Return the text of the signature file."""
    lines = [f"# What the op modules of DeepSpeed {version} offer. Written by tools/deepspeed_signatures --write; do not edit."]
    for op, signatures in ops.items():
        lines += ["", f"[{op}]", *signatures]
    return "\n".join(lines) + "\n"


def from_text(text):
    """Return (version, {op: signatures}) from a signature file."""
    version = re.search(r"DeepSpeed (\S+) offer", text).group(1)
    ops = {}
    for line in text.splitlines():
        if line.startswith("["):
            ops[line[1:-1]] = []
        elif line and not line.startswith("#"):
            ops[list(ops)[-1]].append(line)
    return version, ops


def parse(signature):
    """Return (name, [(keyword or None, kind, default or None)], result) for a line.

    For a value of an enumeration, the parameters are None.
    """
    found = re.fullmatch(r"([\w.]+)(?:\((.*)\) -> (.*))?", signature)
    name, inside, result = found.groups()
    if result is None:
        return name, None, None
    parameters = []
    for one in split_arguments(inside):
        declared = re.fullmatch(r"(\w+): (\S+)(?: = (.*))?", one)
        parameters.append((declared.group(1), declared.group(2), declared.group(3)) if declared else (None, one, None))
    return name, parameters, result


def default_value(text):
    return ast.literal_eval(text)
