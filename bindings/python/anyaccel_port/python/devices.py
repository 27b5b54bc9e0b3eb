"""Classifies expressions that name a device: an index, a torch.device, a string or unknown."""

from __future__ import annotations

import libcst as cst

from .scopes import Binding, dotted
from .source import Source

INDEX, DEVICE, STRING, NOTHING, UNKNOWN = "index", "device", "string", "nothing", "unknown"
RANKS = frozenset({
    "rank", "local_rank", "gpu", "gpu_id", "gpu_idx", "gpu_index", "device_id", "device_idx", "device_index", "dev_id", "cuda_id",
    "cuda_device", "world_rank", "global_rank", "rank_id", "device_num"
})
_CALLS = {
    "int": INDEX,
    "len": INDEX,
    "str": STRING,
    "torch.device": DEVICE,
    "torch.cuda.current_device": INDEX,
    "torch.distributed.get_rank": INDEX,
    "os.getenv": STRING,
    "os.environ.get": STRING,
    "torch.cuda.device_count": INDEX,
    "get_rank": INDEX,
    "get_local_rank": INDEX
}
_STRINGS = (cst.SimpleString, cst.FormattedString, cst.ConcatenatedString)


def is_device_name(name: str) -> bool:
    """Whether a variable, parameter or key with this name holds devices."""
    name = name.lower().replace("-", "_")
    if name.rsplit(".", 1)[-1] in RANKS:
        return False
    return "device" in name or "map_location" in name or name.rsplit(".", 1)[-1] in ("dev", "devs", "dev_type")


def kind(source: Source, node: cst.BaseExpression, depth: int = 0) -> str:
    """The kind of an expression that is passed as a device."""
    if isinstance(node, _STRINGS):
        return STRING
    if isinstance(node, (cst.Integer, cst.UnaryOperation)):
        return INDEX
    if isinstance(node, cst.BinaryOperation):
        return STRING if any(isinstance(side, _STRINGS) for side in (node.left, node.right)) else INDEX
    if isinstance(node, cst.Call):
        name = source.names.qualified(node.func) or dotted(node.func)
        found = _CALLS.get(name) or _CALLS.get(name.rsplit(".", 1)[-1] if name.endswith("rank") else "")
        if found:
            return found
        return UNKNOWN if is_device_name(name) else INDEX
    if isinstance(node, cst.Subscript):
        base = dotted(node.value)
        if base == "os.environ":
            return STRING
        return UNKNOWN if is_device_name(base) and not base.endswith("s") else INDEX
    if isinstance(node, cst.IfExp):
        kinds = {kind(source, node.body, depth + 1), kind(source, node.orelse, depth + 1)} - {NOTHING}
        return kinds.pop() if len(kinds) == 1 else UNKNOWN
    if isinstance(node, cst.Name):
        return _name(source, node, depth)
    if isinstance(node, cst.Attribute):
        if node.attr.value == "index":
            return INDEX
        if node.attr.value == "device" and dotted(node.value).rsplit(
                ".", 1)[-1] not in ("self", "args", "opt", "config", "cfg", "opts", "options", "hparams"):
            return DEVICE
        return UNKNOWN if is_device_name(node.attr.value) else INDEX
    return UNKNOWN


def _name(source: Source, node: cst.Name, depth: int) -> str:
    if node.value == "None":
        return NOTHING
    default = UNKNOWN if is_device_name(node.value) else INDEX
    if depth > 4:
        return default
    kinds = set()
    for binding in source.names.scope_of(node).lookup(node.value) if id(node) in source.names.scopes else ():
        parent = source.names.parent(binding.node)
        if binding.value is not None and binding.value is not node:
            kinds.add(kind(source, binding.value, depth + 1))
        elif isinstance(parent,
                        (cst.For, cst.CompFor)) and isinstance(parent.iter, cst.Call) and dotted(parent.iter.func) == "range":
            kinds.add(INDEX)
        elif binding.kind == "parameter":
            kinds.add(default)
    kinds -= {NOTHING, UNKNOWN}
    return kinds.pop() if len(kinds) == 1 else default


def maybe_none(source: Source, node: cst.BaseExpression) -> bool:
    """Whether the expression is a parameter whose default is None."""
    if not isinstance(node, cst.Name):
        return False
    return any(isinstance(b.value, cst.Name) and b.value.value == "None" for b in source.names.scope_of(node).lookup(node.value))


def is_integer(source: Source, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether the source shows that a name or an attribute of self is an integer: rank: int, self.rank = int(...)."""
    if isinstance(node, cst.Call):
        return kind(source, node) == INDEX and not is_text_number(source, node)
    if depth > 4:
        return False
    if isinstance(node, cst.Attribute) and dotted(node.value) == "self":
        text = dotted(node)
        values = [n.value for n in source.names.nodes.get(cst.Assign, ()) if any(dotted(t.target) == text for t in n.targets)]
        return bool(values) and all(is_integer(source, value, depth + 1) for value in values)
    if not isinstance(node, cst.Name) or id(node) not in source.names.scopes:
        return False
    bindings = source.names.scope_of(node).lookup(node.value)
    return bool(bindings) and all(_is_integer_binding(source, binding, depth) for binding in bindings)


def _is_integer_binding(source: Source, binding: Binding, depth: int) -> bool:
    if binding.kind == "parameter":
        annotation = getattr(binding.node, "annotation", None)
        return annotation is not None and dotted(annotation.annotation) == "int"
    return binding.value is not None and is_integer(source, binding.value, depth + 1)


def is_text_number(source: Source, node: cst.BaseExpression) -> bool:
    """Whether an index is a string: the value of an environment variable, or of an option without type=int."""
    if isinstance(node, cst.Name):
        values = [b.value for b in source.names.scope_of(node).lookup(node.value) if b.value is not None]
        return bool(values) and all(not isinstance(v, cst.Name) and (kind(source, v) == STRING or is_text_number(source, v))
                                    for v in values)
    if isinstance(node, cst.Attribute):
        return source.text_options().get(node.attr.value, False)
    return isinstance(node, (cst.Call, cst.Subscript)) and kind(source, node) == STRING
