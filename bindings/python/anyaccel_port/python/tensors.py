"""torch.cuda.FloatTensor and the other tensor types."""

from __future__ import annotations

import re

import libcst as cst

from ..rules import Rule
from . import arguments, texts
from .source import EQUIVALENT, REVIEW, Source
from .uses import use_of

# Names that suggest numbers or sizes. Other names count as data.
_SIZES = re.compile(
    r"(?:^|_)(?:n|num|size|shape|dim|dims|len|length|int|max|min|count|width|height|batch|b|h|w|c|k|m)(?:_|$)|^num|size$|dim$|len$")


def replace(source: Source, rule: Rule, name: str, node: cst.BaseExpression, call: cst.Call | None) -> bool:
    dtype = texts.DTYPES.get(name.removesuffix("Tensor"))
    if dtype is None or not name.endswith("Tensor"):
        return False
    if call is None:
        texts.tensor_type(source, node, name.removesuffix("Tensor"), use_of(source, node))
        return True
    pieces: dict[str, tuple[int, int]] = {}
    span = source.tree.span(call)
    if any(arg.keyword is not None for arg in call.args):
        source.add(rule.id, source.tree.span(node), node, severity=REVIEW)
        return True
    kind = arguments_kind(call)
    if not call.args:
        template = f"torch.empty(0, dtype=torch.{dtype}, device={{type}})"
    elif kind == "empty":
        template = arguments.place(source, f"torch.empty({{args}}, dtype=torch.{dtype}, device={{type}})", call, pieces)
    else:
        template = arguments.place(source, f"torch.tensor({{args}}, dtype=torch.{dtype}, device={{type}})", call, pieces)
        if (source.template(rule) or "").startswith("{acc}"):
            template = f"{{acc}}.{name}({{args}})"
    source.add(rule.id, span, node, template, pieces, severity=EQUIVALENT if kind or not call.args else REVIEW)
    return True


def find_constructors(source: Source) -> None:
    """torch.Tensor(...) creates a tensor of the default type; torch.set_default_device() has no effect on it."""
    if not source.default_type:
        return
    for call in source.names.nodes.get(cst.Call, ()):
        if source.names.qualified(call.func) != "torch.Tensor":
            continue
        kind = arguments_kind(call) if call.args else "empty"
        pieces: dict[str, tuple[int, int]] = {}
        text = "{args}, dtype=torch.get_default_dtype()" if kind == "tensor" else "{args}" if call.args else "0"
        template = arguments.place(source, f"torch.{kind}({text})", call, pieces) if kind else None
        source.add("tensor-type-string",
                   source.tree.span(call),
                   call,
                   template,
                   pieces,
                   severity=EQUIVALENT if kind else REVIEW,
                   message="torch.set_default_device() has no effect on torch.Tensor(...).")


def _last(node: cst.BaseExpression) -> str:
    """The last part of a name, or of the name of a called function."""
    if isinstance(node, cst.Call):
        node = node.func
    return node.attr.value if isinstance(node, cst.Attribute) else getattr(node, "value", "")


def arguments_kind(call: cst.Call) -> str:
    """The function that takes the same arguments: `tensor` for data, `empty` for sizes, or "" if it is unclear."""
    if any(arg.keyword is not None for arg in call.args):
        return ""
    if any(arg.star for arg in call.args):
        return "empty"  # Several arguments are always sizes.
    if len(call.args) == 1 and _is_values(call.args[0].value):
        return "tensor"
    if len(call.args) > 1 or call.args and _is_size(call.args[0].value):
        return "empty"
    return ""


def _is_values(node: cst.BaseExpression) -> bool:
    """Whether an argument is certainly data rather than a size."""
    if isinstance(node, (cst.List, cst.ListComp, cst.Tuple)):
        return True
    if isinstance(node, (cst.Call, cst.Name, cst.Attribute)):
        return not _SIZES.search(_last(node))
    return False


def _is_size(node: cst.BaseExpression) -> bool:
    if isinstance(node, (cst.Integer, cst.BinaryOperation)):
        return True
    if isinstance(node, (cst.Call, cst.Name, cst.Attribute)):
        return bool(_SIZES.search(_last(node)))
    return isinstance(node, cst.Subscript) and isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
