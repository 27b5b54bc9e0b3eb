"""Explains comparisons of NVIDIA's compute capability: which feature they test, and how to query it."""

from __future__ import annotations

import libcst as cst

from .source import Source

# Capabilities, the features of the first devices with them, and how to query the features.
_FEATURES = (
    ((7, 0), "fast float16", "`get_accelerator().is_fp16_supported()`"),
    ((8, 0), "bfloat16 and TF32", "`get_accelerator().is_bf16_supported()`"),
    ((8, 9), "float8", "`get_accelerator().supported_dtypes()`"),
    ((9, 0), "the instructions of Hopper", "`get_accelerator().create_op_builder(name).is_compatible()`"),
)


def explain(source: Source, call: cst.Call) -> str:
    """Return a message for a call that returns a capability or a device's properties, or "" if no comparison uses it."""
    asked = _asked(source, call)
    if asked is None:
        return ""
    text = (f"The program compares the compute capability with {asked[0]}.{asked[1]}. Only some vendors define a compute "
            "capability; `compute_capability()` raises an error for the others. ")
    known = [feature for feature in _FEATURES if feature[0] <= asked]
    if not known:
        return text + "Query the feature that the code needs instead."
    _, name, query = known[-1]
    first = known[-1][0]
    return text + f"NVIDIA devices with {first[0]}.{first[1]} or higher have {name}. If the code needs this, query {query} instead."


def _asked(source: Source, call: cst.Call) -> tuple[int, int] | None:
    """The capability that the result of the call is compared with."""
    parent = source.names.parent(call)
    found = _compared(source, call)
    if found is not None or not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
        return found
    target = parent.targets[0].target
    if isinstance(target, cst.Tuple):
        target = target.elements[0].value  # major, minor = ...
    if not isinstance(target, cst.Name):
        return None
    bindings = source.names.scope_of(target).lookup(target.value)
    for use in source.uses_of_name(target.value):
        if use is not target and source.names.scope_of(use).lookup(target.value) is bindings:
            if (found := _compared(source, use)) is not None:
                return found
    return None


def _compared(source: Source, node: cst.CSTNode) -> tuple[int, int] | None:
    """The capability that a value, its first item or its attribute `major` is compared with."""
    parent = source.names.parent(node)
    is_item = isinstance(parent, cst.Subscript) and parent.value is node
    if is_item or isinstance(parent, cst.Attribute) and parent.attr.value == "major":
        node, parent = parent, source.names.parent(parent)
    if isinstance(parent, cst.ComparisonTarget):
        return _number(source.names.parent(parent).left)
    return _number(parent.comparisons[0].comparator) if isinstance(parent, cst.Comparison) and parent.left is node else None


def _number(node: cst.BaseExpression) -> tuple[int, int] | None:
    """A capability: (8, 0), [8, 0], 8 or 8.0."""
    if isinstance(node, (cst.Tuple, cst.List)):
        values = [e.value.evaluated_value for e in node.elements if isinstance(e.value, cst.Integer)]
        return (values[0], values[1] if len(values) > 1 else 0) if values and len(values) == len(node.elements) else None
    if isinstance(node, cst.Integer):
        value = node.evaluated_value
        return (value, 0) if value < 20 else divmod(value, 10)
    if isinstance(node, cst.Float):
        return int(node.evaluated_value), round(node.evaluated_value * 10) % 10
    return None
