"""torch.cuda.amp: the functions of torch.amp take the device type as an argument."""

from __future__ import annotations

import libcst as cst

from ..rules import Rule
from . import arguments
from .source import EQUIVALENT, REVIEW, Source

_AUTOCAST = ("enabled", "dtype", "cache_enabled")


def replace(source: Source, rule: Rule, name: str, node: cst.BaseExpression, call: cst.Call | None) -> bool:
    template = source.template(rule)
    if not rule.id.startswith("cuda-amp-") or template is None:
        return False
    if call is None:
        _value(source, rule, name, node)
        return True
    pieces: dict[str, tuple[int, int]] = {}
    if rule.id == "cuda-amp-autocast" and _is_default_dtype(call):
        template = template.replace("{args})", "{args}, dtype=torch.float16)")
    template = arguments.place(source, template, call, pieces)
    finding = source.add(rule.id, source.tree.span(call), node, template, pieces, values={"name": name})
    if rule.id == "cuda-amp-autocast":
        for keyword, arg in zip(_AUTOCAST, call.args):
            if arg.keyword is not None:
                break
            if arg.star:
                finding.severity = REVIEW
                break
            start = source.tree.outer(arg.value)[0]
            finding.edits += (type(finding.edits[0])(start, start, keyword + "="), )
    elif rule.id == "cuda-amp-custom-function" and any(arg.keyword is None for arg in call.args):
        finding.severity, finding.edits = REVIEW, ()
    return True


def _is_default_dtype(call: cst.Call) -> bool:
    """Whether autocast has its default dtype, which is float16 for CUDA and differs for other accelerators."""
    if any(arg.star or arg.keyword is not None and arg.keyword.value == "dtype" for arg in call.args):
        return False
    return sum(arg.keyword is None for arg in call.args) < 2


def _value(source: Source, rule: Rule, name: str, node: cst.BaseExpression) -> None:
    """The function without a call: a decorator, an annotation or a value."""
    span = source.tree.span(node)
    parent = source.names.parent(node)
    if isinstance(parent, cst.Decorator):
        template = f"torch.amp.{name}(device_type={{type}})"
        if name == "autocast":
            template = "torch.autocast({type}, dtype=torch.float16)"
        source.add(rule.id, span, node, template)
    elif isinstance(parent, cst.Annotation) or _is_class_use(source, node):
        source.add(rule.id, span, node, f"torch.amp.{name}", severity=EQUIVALENT)
    elif name == "GradScaler":
        source.add(rule.id, span, node, "torch.amp.GradScaler", severity=REVIEW)
    else:
        source.add(rule.id, span, node, severity=REVIEW)


def _is_class_use(source: Source, node: cst.BaseExpression) -> bool:
    """Whether the name is in a type annotation, a base class or isinstance()."""
    parent = source.names.parent(node)
    while isinstance(parent, (cst.Index, cst.SubscriptElement, cst.Subscript, cst.BinaryOperation)):
        parent = source.names.parent(parent)
    if isinstance(parent, cst.Annotation):
        return True
    owner = source.names.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(owner, cst.Call) and isinstance(owner.func, cst.Name) and owner.func.value == "isinstance"
