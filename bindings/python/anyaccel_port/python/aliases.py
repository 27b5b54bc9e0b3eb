"""Variables that hold a tensor type: `Tensor = torch.cuda.FloatTensor if cuda else torch.FloatTensor`.

Other accelerators have no tensor types. If all uses are calls and arguments of .type(), the variable
becomes a device, and the uses take it as an argument.
"""

from __future__ import annotations

import re

import libcst as cst

from ..findings import Edit
from . import tensors, texts
from .scopes import Binding
from .source import EQUIVALENT, Source

_TYPE = re.compile(r"torch\.(cuda\.)?(\w*)Tensor$")


def find_aliases(source: Source) -> None:
    candidates = [name for name, bindings in source.bound.items() if any(_types(source, b) for b in bindings)]
    for name in candidates:
        for scope in source.names.all_scopes:
            if name in scope.bindings:
                _alias(source, name, scope.bindings[name])


def _types(source: Source, binding: Binding) -> list[tuple[cst.BaseExpression, bool, str]]:
    """The tensor types that a binding's value can be: the expression, whether it is a type of CUDA,
    and the dtype. Empty for other values."""
    if binding.value is None:
        return []
    value = binding.value
    sides = [value.body, value.orelse] if isinstance(value, cst.IfExp) else [value]
    found = []
    for side in sides:
        match = _TYPE.match(source.names.qualified(side)) if isinstance(side, cst.Attribute) else None
        dtype = texts.DTYPES.get(match.group(2) or "Float") if match else None
        if dtype is None:
            return []
        found.append((side, bool(match.group(1)), dtype))
    return found


def _alias(source: Source, name: str, bindings: list[Binding]) -> None:
    types = [found for b in bindings for found in _types(source, b) or [(None, False, "")]]
    dtypes = {dtype for _, _, dtype in types}
    if len(dtypes) != 1 or "" in dtypes or not any(cuda for _, cuda, _ in types):
        return
    dtype = dtypes.pop()
    edits: list[Edit] = []
    targets = {id(b.node) for b in bindings}
    for use in source.uses_of_name(name):
        if id(use) in targets or source.names.scope_of(use).lookup(name) is not bindings:
            continue
        if isinstance(source.names.parent(use), cst.Attribute) and source.names.parent(use).attr is use:
            continue
        found = _use(source, name, use, dtype)
        if not found:
            return
        edits += found
    values = source.values(source.names.scope_of(bindings[0].node))
    for side, cuda, _ in types:
        start, end = source.tree.span(side)
        edits.append(Edit(start, end, values["type"] if cuda else '"cpu"'))
        source.done.add(id(side))
    first = next(side for side, cuda, _ in types if cuda)
    finding = source.add(
        "tensor-type-string",
        source.tree.span(first),
        first,
        severity=EQUIVALENT,
        message=f"Other accelerators have no tensor types. `{name}` becomes a device, which the functions that create tensors take."
    )
    finding.replacement = values["type"]
    finding.edits = tuple(edits)
    finding.extra["spread"] = True


def _use(source: Source, name: str, use: cst.Name, dtype: str) -> list[Edit]:
    """The edits for one use of the variable; empty if it cannot be replaced."""
    parent = source.names.parent(use)
    torch = source.torch(source.names.scope_of(use))
    if isinstance(parent, cst.Call) and parent.func is use:
        if not parent.args:
            return [Edit(*source.tree.span(parent), f"{torch}.empty(0, dtype={torch}.{dtype}, device={name})")]
        kind = tensors.arguments_kind(parent)
        if not kind:
            return []
        start, end = source.tree.span(use)
        last = source.tree.outer(parent.args[-1].value)[1]
        return [Edit(start, end, f"{torch}.{kind}"), Edit(last, last, f", dtype={torch}.{dtype}, device={name}")]
    call = source.names.parent(parent) if isinstance(parent, cst.Arg) else None
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "type" and len(
            call.args) == 1:
        return [Edit(source.tree.span(call.func.attr)[0], source.tree.span(call)[1], f"to({name}, {torch}.{dtype})")]
    return []
