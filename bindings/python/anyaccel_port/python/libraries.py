"""Uses of libraries that have kernels for some accelerators, and of resources that count GPUs."""

from __future__ import annotations

import re

import libcst as cst

from ..findings import Edit
from ..rules import TORCH
from . import devices
from .scopes import dotted
from .source import Source
from .uses import literal, use_of

_MEMBERS = (
    ("bitsandbytes", re.compile(r"bitsandbytes\.(?:optim|nn|functional|matmul\w*|research|triton)\b")),
    ("xformers", re.compile(r"xformers\.(?!__)\w+")),
    ("triton", re.compile(r"triton\.jit$")),
    ("vllm", re.compile(r"vllm\..*(?:\bworker\b|gpu_|cuda|GPU|CUDA)")),
)  # yapf: disable
_XFORMERS = ("enable_xformers_memory_efficient_attention", "set_use_memory_efficient_attention_xformers")
_RAY = {"num_gpus": ("remote", "options", "init", "add_node"), "use_gpu": ("ScalingConfig", )}
_LIGHTNING = ("gpus", "distributed_backend", "auto_select_gpus")
_LIGHTNING_MODULES = frozenset(("pytorch_lightning", "lightning", "lightning_fabric"))
_LOADERS = ("find_spec", "import_module", "load_library", "__import__")


def find_libraries(source: Source) -> None:
    roots = {b.qualified.split(".")[0] for bindings in source.bound.values() for b in bindings if b.kind == "import"}
    for node in source.names.nodes.get(cst.Call, ()):
        _call(source, node, roots)
    _members(source, roots)
    if "ray" in roots:
        _ray_resources(source)
    for node in source.names.nodes.get(cst.Dict, ()):
        _device_map(source, node)


def _call(source: Source, node: cst.Call, roots: set[str]) -> None:
    last = node.func.attr.value if isinstance(node.func, cst.Attribute) else dotted(node.func)
    first = node.args[0].value if node.args else None
    if last in _XFORMERS and isinstance(node.func, cst.Attribute):
        if not (isinstance(first, cst.Name) and first.value == "False"):
            source.add("xformers", source.tree.span(node.func), node)
    elif last == "GradScaler":
        _grad_scaler(source, node)
    elif last == "BitsAndBytesConfig":
        source.add("bitsandbytes-quantization", source.tree.span(node), node)
    elif last in _LOADERS and first is not None and re.search(r"[\w}]_cuda[\"']+$", source.tree.source(first)):
        source.add("cuda-extension", source.tree.span(first), node)
    for arg in node.args:
        keyword = arg.keyword.value if arg.keyword is not None else ""
        span = source.tree.span(arg)
        if last in _RAY.get(keyword, ()) and "ray" in roots and literal_number(arg.value) != 0 and dotted(arg.value) != "False":
            source.add("ray-gpus", span, arg)
        elif last == "Trainer" and keyword in _LIGHTNING and roots & _LIGHTNING_MODULES:
            source.add("lightning-gpus", span, arg)
        elif literal(arg.value) == "gpu" and roots & _LIGHTNING_MODULES and (
                last in ("Trainer", "Fabric") and keyword == "accelerator"
                or last == "add_argument" and literal(first) == "--accelerator" and keyword == "default"):
            source.add("lightning-accelerator", source.tree.span(arg.value), arg)
        elif keyword in ("load_in_4bit", "load_in_8bit") and last != "BitsAndBytesConfig" and dotted(arg.value) == "True":
            source.add("bitsandbytes-quantization", span, arg)


def _grad_scaler(source: Source, node: cst.Call) -> None:
    """torch.amp.GradScaler without a device uses CUDA."""
    if source.names.qualified(node.func) not in ("torch.amp.GradScaler", "torch.amp.grad_scaler.GradScaler", "torch.GradScaler"):
        return
    if any(arg.keyword is None or arg.keyword.value == "device" for arg in node.args):
        return
    start, end = source.tree.span(node)
    place = source.tree.span(node.args[0])[0] if node.args else end - 1
    device = source.values(source.names.scope_of(node))["type"] + (", " if node.args else "")
    finding = source.add("grad-scaler-default", (start, end), node)
    finding.edits = (Edit(place, place, device), )
    finding.replacement = source.text[start:place] + device + source.text[place:end]


def literal_number(node: cst.BaseExpression) -> float | None:
    """The value of a number, None for other expressions."""
    return node.evaluated_value if isinstance(node, (cst.Integer, cst.Float)) else None


def _members(source: Source, roots: set[str]) -> None:
    patterns = [(rule, pattern) for rule, pattern in _MEMBERS if rule in roots]
    if not patterns:
        return
    for node in source.names.nodes.get(cst.Attribute, ()):
        parent = source.names.parent(node)
        if isinstance(parent, (cst.Attribute, cst.ImportAlias, cst.ImportFrom)):
            continue
        name = source.names.qualified(node)
        for rule, pattern in patterns:
            if pattern.match(name):
                source.add(rule, source.tree.span(node), node)


def _ray_resources(source: Source) -> None:
    """`{"GPU": 1}` in a bundle of a placement group, and other uses of the name of Ray's resource."""
    for node in source.names.nodes.get(cst.SimpleString, ()):
        if literal(node) != "GPU":
            continue
        kind = use_of(source, node).kind
        parent = source.names.parent(source.names.parent(node))
        asked = isinstance(parent, cst.Call) and isinstance(parent.func, cst.Attribute) and parent.func.attr.value == "get"
        if kind in ("key", "subscript") or asked:
            source.add("ray-gpus", source.tree.span(node), node)


def _device_map(source: Source, node: cst.Dict) -> None:
    """`device_map={"": 0}`: the integers become names of devices."""
    if not use_of(source, node).name.endswith("device_map"):
        return
    values = [e.value for e in node.elements if isinstance(e, cst.DictElement) and _is_index(source, e.value)]
    if not values:
        return
    finding = source.add("device-map-index", source.tree.span(node), node, severity="review")
    if source.target != TORCH:
        for value in values:
            start, end = source.tree.outer(value)
            finding.edits += (Edit(start, start, f"{source.function}().device_name("), Edit(end, end, ")"))


def _is_index(source: Source, value: cst.BaseExpression) -> bool:
    last = dotted(value.func if isinstance(value, cst.Call) else value).rsplit(".", 1)[-1]
    if isinstance(value, cst.Call):
        return last in ("int", "get_rank", "get_local_rank")
    return isinstance(value, cst.Integer) or last in (*devices.RANKS, "process_index", "local_process_index")
