"""Methods and attributes of tensors and modules: .cuda(), .is_cuda, .record_stream(); integers as devices."""

from __future__ import annotations

import re

import libcst as cst

from .. import rules
from ..rules import TORCH
from . import devices
from .scopes import dotted
from .source import EQUIVALENT, REVIEW, Source
from .uses import literal

_OTHER_LIBRARIES = ("numba", "jax", "paddle", "cupy", "mxnet", "tensorflow", "pycuda")
_PARALLEL = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")
_STORAGES = ("storage", "untyped_storage", "typed_storage", "_storage")
_RUNTIME = re.compile(r"cuda(?:[A-Z]\w+)$|nvml[A-Z]\w+$")
_PROFILER = ("cuda_time_total", "self_cuda_time_total", "cuda_memory_usage", "self_cuda_memory_usage", "cuda_time")


def find_methods(source: Source) -> None:
    for node in source.names.nodes.get(cst.Call, ()):
        if id(node) in source.done:
            continue
        if isinstance(node.func, cst.Attribute):
            name = node.func.attr.value
            if name == "cuda":
                _cuda(source, node)
            elif _RUNTIME.match(name) and not source.names.qualified(node.func).startswith("torch."):
                source.add("cuda-runtime", source.tree.span(node.func), node)
            elif name == "pin_memory" and not node.args and source.target != TORCH:
                _pin_memory(source, node)
            elif name == "record_stream":
                source.add("record-stream", (source.tree.span(node.func.attr)[0], source.tree.span(node)[1]), node)
        _integers(source, node)
        _parallel(source, node)
        _extension(source, node)
    for node in source.names.nodes.get(cst.Attribute, ()):
        name = node.attr.value
        if id(node) in source.done:
            continue
        if name == "is_cuda":
            rule = rules.BY_ID["tensor-is-cuda"]
            assigned = isinstance(source.names.parent(node), cst.AssignTarget)
            source.add(rule.id,
                       source.tree.span(node),
                       node,
                       None if assigned else source.template(rule), {"self": source.tree.outer(node.value)},
                       severity=REVIEW if assigned else "")
        elif name == "gpu_options":
            source.add("tensorflow-gpu-options", source.tree.span(node), node)
        elif name in ("cuda_stream", "cuda_event"):
            source.add("cuda-stream-handle", source.tree.span(node.attr), node)
        elif name in _PROFILER and dotted(node.value) != "self":
            source.add("profiler-cuda-time", source.tree.span(node.attr), node, name.replace("cuda_", "device_"))
        elif name == "cuda" and not isinstance(source.names.parent(node), (cst.Call, cst.Attribute)) and _is_method(source, node):
            source.add("tensor-cuda", source.tree.span(node), node, severity=REVIEW)


def _is_method(source: Source, node: cst.Attribute) -> bool:
    return source.names.qualified(node.value) in ("torch.Tensor", "torch.nn.Module", "torch.nn.modules.Module")


def _cuda(source: Source, node: cst.Call) -> None:
    owner = source.names.qualified(node.func.value)
    tree = source.tree
    span = (tree.span(node.func.attr)[0], tree.span(node)[1])
    if owner.split(".")[0] in _OTHER_LIBRARIES:
        return
    overrides = isinstance(node.func.value, cst.Call) and dotted(node.func.value.func) == "super"
    if owner in ("torch.Tensor", "torch.nn.Module") or overrides or any(arg.star for arg in node.args) or len(node.args) > 3:
        source.add("tensor-cuda", span, node, severity=REVIEW)
        return
    pieces, values = {}, {}
    keyword = "device=" if dotted(node.func.value).rsplit(".", 1)[-1] in _STORAGES else ""  # Storage.to() has only keywords.
    template = f"to({keyword}{{type}}"
    for i, arg in enumerate(node.args):
        name = arg.keyword.value if arg.keyword is not None else ("device", "non_blocking", "memory_format")[i]
        value = tree.outer(arg.value)
        if name == "device":
            pieces["device"] = value
            template = f"to({keyword}" + _device(source, arg.value)
        else:
            pieces[name] = value
            template += f", {name}={{{name}}}"
    source.add("tensor-cuda", span, node, template + ")", pieces, values=values)


def _device(source: Source, value: cst.BaseExpression) -> str:
    """The template for the device that .cuda() gets."""
    if isinstance(value, cst.Name) and value.value == "None":
        return "{type}"
    kind = devices.kind(source, value)
    if literal(value) is not None or kind in (devices.DEVICE, devices.STRING,
                                              devices.UNKNOWN) and not devices.is_text_number(source, value):
        return "{device}"
    if isinstance(value, cst.Call) and source.names.qualified(value.func) == "torch.cuda.current_device":
        if source.target != TORCH:
            source.done.add(id(value.func))
            return "{acc}.current_device_name()"
        return "{device}"
    if source.target == TORCH:
        return "{device}"
    return "{acc}.device_name(int({device}))" if devices.is_text_number(source, value) else "{acc}.device_name({device})"


def _pin_memory(source: Source, node: cst.Call) -> None:
    receiver = node.func.value
    if dotted(receiver) == "self" or isinstance(receiver, cst.Call) and dotted(receiver.func) == "super":
        return
    rule = rules.BY_ID["tensor-pin-memory"]
    source.add(rule.id,
               source.tree.span(node),
               node,
               source.template(rule), {"self": source.tree.outer(receiver)},
               severity=EQUIVALENT if _is_tensor(source, receiver) else REVIEW)


def _root(source: Source, node: cst.BaseExpression) -> tuple[cst.BaseExpression, bool]:
    """The start of a chain of calls and attributes, and whether the chain calls a function of torch."""
    while isinstance(node, (cst.Call, cst.Attribute, cst.Subscript)):
        if isinstance(node, cst.Call):
            name = source.names.qualified(node.func)
            if name.startswith("torch.") and not name.startswith(("torch.nn.", "torch.utils.")):
                return node, True
            node = node.func
        else:
            node = node.value
    return node, False


def _is_tensor(source: Source, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether torch certainly created the object. Other classes may have a pin_memory() of their own."""
    root, created = _root(source, node)
    if created or not isinstance(root, cst.Name) or depth > 4:
        return created
    values = [b.value for b in source.names.scope_of(root).lookup(root.value) if b.kind != "import"]
    others = [v for v in values if v is None or getattr(_root(source, v)[0], "value", None) != root.value]
    return bool(others) and all(v is not None and _is_tensor(source, v, depth + 1) for v in others)


def _parallel(source: Source, node: cst.Call) -> None:
    """DistributedDataParallel(model, device_ids=[rank])"""
    if source.target == TORCH or source.names.qualified(node.func) not in _PARALLEL:
        return
    rule = rules.BY_ID["ddp-device-ids"]
    for arg in node.args:
        if arg.keyword is None or arg.keyword.value not in ("device_ids", "output_device"):
            continue
        span = source.tree.outer(arg.value)
        text = source.text[span[0]:span[1]]
        if text != "None" and "is_synchronized_device" not in text:
            source.add(rule.id, span, node, source.template(rule), {"0": span})


def _integers(source: Source, node: cst.Call) -> None:
    """Integers as devices: x.to(rank), torch.ones(2, device=0)."""
    if source.target == TORCH:
        return
    is_to = isinstance(node.func, cst.Attribute) and node.func.attr.value in ("to", "to_empty")
    for i, arg in enumerate(node.args):
        keyword = arg.keyword.value if arg.keyword is not None else ""
        if not (i == 0 and is_to and not keyword or keyword in ("device", "map_location")):
            continue
        value = arg.value
        last = dotted(value).rsplit(".", 1)[-1]
        if not (isinstance(value, cst.Integer) or last in devices.RANKS):
            continue
        qualified = source.names.qualified(node.func)
        if keyword and qualified and not qualified.startswith("torch.") or not keyword and not is_to:
            continue
        if last in ("gpu", "gpu_id", "device_id") and isinstance(value, cst.Name) and devices.kind(source,
                                                                                                   value) not in (devices.INDEX, ):
            continue
        sure = isinstance(value, cst.Integer) or last.endswith("rank") or devices.is_integer(source, value)
        text = devices.is_text_number(source, value)
        rule = rules.BY_ID["device-index-bare"]
        template = "{acc}.device_name(int({0}))" if text else source.template(rule)
        source.add(rule.id,
                   source.tree.span(value),
                   value,
                   template, {"0": source.tree.outer(value)},
                   severity=EQUIVALENT if sure else REVIEW)


def _extension(source: Source, node: cst.Call) -> None:
    """Arguments that are only for CUDA."""
    qualified = source.names.qualified(node.func)
    if not qualified.startswith("torch."):
        return
    for arg in node.args:
        keyword = arg.keyword.value if arg.keyword is not None else ""
        if qualified.startswith("torch.utils.cpp_extension.") and keyword in ("extra_cuda_cflags", "cuda_sources", "with_cuda"):
            source.add("cuda-extension", source.tree.span(arg), arg)
        elif keyword == "use_cuda" and "profiler" in qualified:
            source.add("profiler-activity", source.tree.span(arg), arg, severity=REVIEW)
