"""Device names that a program composes, and choices between devices."""

from __future__ import annotations

import re

import libcst as cst

from .. import rules
from ..rules import TORCH
from . import devices
from .scopes import dotted
from .source import REVIEW, Source
from .uses import Use, literal, use_of

_DEVICE = re.compile(r"cuda(?::(\d+))?$")
_PERCENT = re.compile(r"cuda:%[sdi]$")
_BRACES = re.compile(r"cuda:\{(\w*)(?::d)?\}$")
_AVAILABLE = "torch.cuda.is_available"


def indexed(source: Source, node: cst.BaseExpression, index: cst.BaseExpression, covered: list[cst.CSTNode]) -> None:
    """A device name with a computed index."""
    use = use_of(source, node)
    if use.kind in ("log", "statement"):
        return
    rule = rules.BY_ID["device-string-index"]
    source.done.update(id(n) for n in [node, *covered])
    template = source.template(rule)
    index, template = _number(source, index, template)
    severity = ""
    if use.kind == "compare":
        rule = rules.BY_ID["device-comparison"]
        severity = "equivalent"
    source.add(rule.id, source.tree.span(node), node, template, {"0": source.tree.outer(index)}, severity=severity)


def _number(source: Source, index: cst.BaseExpression, template: str) -> tuple[cst.BaseExpression, str]:
    """Removes str() around an index, and adds int() if it is a string."""
    if isinstance(index, cst.Call) and dotted(index.func) == "str" and len(index.args) == 1:
        return index.args[0].value, template
    if source.target != TORCH and devices.is_text_number(source, index):
        return index, template.replace("{0}", "int({0})")
    return index, template


def operation(source: Source, node: cst.BinaryOperation) -> None:
    """`"cuda:%d" % i` and `"cuda:" + str(i)`."""
    text = literal(node.left)
    if text is None or id(node) in source.done or isinstance(source.names.parent(node), cst.BinaryOperation):
        return
    if isinstance(node.operator, cst.Modulo) and _PERCENT.match(text):
        index = node.right
        if isinstance(index, cst.Tuple) and len(index.elements) == 1:
            index = index.elements[0].value
        indexed(source, node, index, [node.left])
    elif isinstance(node.operator, cst.Add) and text == "cuda:":
        indexed(source, node, node.right, [node.left])


def method(source: Source, node: cst.SimpleString) -> bool:
    """`"cuda:{}".format(i)`."""
    match = _BRACES.match(node.raw_value)
    attribute = source.names.parent(node)
    call = source.names.parent(attribute) if isinstance(attribute, cst.Attribute) else None
    if not match or not isinstance(call, cst.Call) or attribute.attr.value != "format" or len(call.args) != 1 or call.args[0].star:
        return False
    indexed(source, call, call.args[0].value, [node])
    return True


def formatted(source: Source, node: cst.FormattedString) -> None:
    """`f"cuda:{i}"`."""
    from .strings import device
    parts = node.parts
    if id(node) in source.done or isinstance(source.names.parent(node), cst.ConcatenatedString):
        return
    if len(parts) == 1 and isinstance(parts[0], cst.FormattedStringText):
        match = _DEVICE.match(parts[0].value)
        if match:
            device(source, node, match.group(1))
        elif parts[0].value.endswith((".cu", ".cuh")) and use_of(source, node).kind != "log":
            source.add("cuda-extension", source.tree.span(node), node)
    elif parts and isinstance(parts[-1], cst.FormattedStringText) and parts[-1].value.endswith(
        (".cu", ".cuh")) and use_of(source, node).kind != "log":
        source.add("cuda-extension", source.tree.span(node), node)
    elif len(parts) == 2 and isinstance(parts[0], cst.FormattedStringText) and parts[0].value == "cuda:":
        expression = parts[1]
        if isinstance(expression, cst.FormattedStringExpression) and expression.equal is None:
            indexed(source, node, expression.expression, [])


def device_call(source: Source, node: cst.BaseExpression, use: Use, index: str | None) -> bool:
    """`torch.device("cuda", i)`: the index becomes an argument of device_name()."""
    call = use.call
    if call is None or use.node is not node or index or source.target == TORCH or source.names.qualified(
            call.func) != "torch.device" or len(call.args) != 2:
        return False
    first, second = call.args
    if first.value is not node or devices.kind(source, second.value) == devices.NOTHING:
        return False
    rule = rules.BY_ID["device-string-index"]
    span = (source.tree.span(node)[0], source.tree.outer(second.value)[1])
    source.done.add(id(node))
    value, template = _number(source, second.value, source.template(rule))
    source.add(rule.id, span, node, template, {"0": source.tree.outer(value)})
    return True


def choice(source: Source, node: cst.IfExp) -> None:
    """`"cuda" if torch.cuda.is_available() else "cpu"`, and the same for backends."""
    test, yes, no = node.test, node.body, node.orelse
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        test, yes, no = test.expression, no, yes
    if not isinstance(test, cst.Call) or source.names.qualified(test.func) != _AVAILABLE:
        return
    use = use_of(source, node)
    if use.kind == "log":
        return
    if literal(yes) == "nccl" and literal(no) == "gloo":
        rule = rules.BY_ID["nccl"]
        source.done.update(map(id, (yes, no, test, test.func)))
        source.add(rule.id, source.tree.span(node), node, source.template(rule))
        return
    wrapped = all(
        isinstance(side, cst.Call) and source.names.qualified(side.func) == "torch.device" and len(side.args) == 1
        for side in (yes, no))
    inner = [side.args[0].value if wrapped else side for side in (yes, no)]
    if literal(inner[1]) != "cpu":
        return
    index = _index(inner[0])
    if index is None:
        return
    rule = rules.BY_ID["device-choice"]
    template = source.template(rule)
    pieces = {}
    values = {}
    named = 'f"{{type}}:{{0}}"' if source.target == TORCH else "{acc}.device_name({0})"
    if isinstance(index, str):
        if index:
            template = template.replace("{type}", named.replace("{{0}}", "{0}"))
            values["0"] = index
    else:
        value, template = _number(source, index, template.replace("{type}", named))
        pieces["0"] = source.tree.outer(value)
    if wrapped:
        template = f"torch.device({template})"
    source.done.update(map(id, (yes, no, test, test.func, *inner)))
    source.add(rule.id, source.tree.span(node), node, template, pieces, values=values)


def _index(node: cst.BaseExpression) -> cst.BaseExpression | str | None:
    """The index in a device name: its source text, "" if there is none, or an expression. None if
    `node` is not a device name of CUDA."""
    match = _DEVICE.match(literal(node) or "")
    if match:
        return match.group(1) or ""
    if isinstance(node, cst.FormattedString) and len(node.parts) == 2:
        text, expression = node.parts
        if isinstance(text, cst.FormattedStringText) and text.value == "cuda:" and isinstance(
                expression, cst.FormattedStringExpression):
            return expression.expression
    if isinstance(node, cst.BinaryOperation):
        left = literal(node.left)
        if left == "cuda:" and isinstance(node.operator, cst.Add) or _PERCENT.match(
                left or "") and not isinstance(node.right, cst.Tuple):
            return node.right
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "format" and len(
            node.args) == 1:
        if _BRACES.match(literal(node.func.value) or ""):
            return node.args[0].value
    return None


__all__ = ["REVIEW", "choice", "device_call", "formatted", "method", "operation"]
