"""Device names, backends and variables of CUDA in strings."""

from __future__ import annotations

import re

import libcst as cst

from .. import rules
from ..rules import TORCH
from . import arguments, build, devices, formats, texts
from .scopes import dotted
from .source import EQUIVALENT, REVIEW, Source
from .uses import Use, literal, parameter_name, use_of

_DEVICE = re.compile(r"cuda(?::(\d+))?$")
_DEVICE_TYPES = ("cpu", "mps", "xpu", "npu", "hpu", "cuda", "meta", "auto", "gpu", "rocm", "tpu", "mlu", "musa", "xla", "hip")
_KEYS = ("get", "pop", "setdefault", "getenv", "getattr", "setattr", "environ.get", "str_to_bool")
_STRING_METHODS = ("startswith", "endswith", "find", "rfind", "index", "count", "replace", "strip", "lstrip", "removeprefix",
                   "split", "partition")
_NOT_DEVICES = ("help", "dest", "metavar", "desc", "description", "title", "label", "msg", "message", "name", "prefix", "suffix",
                "key", "format", "color")
_TEXT_CALLS = ("getattr", "hasattr", "setattr", "delattr", "join", "import_module", "find_spec", "Path", "exists", "open",
               "add_parser", "lower", "upper", "isin")


def find_strings(source: Source) -> None:
    nodes = source.names.nodes
    for node in nodes.get(cst.IfExp, ()):
        formats.choice(source, node)
    for node in nodes.get(cst.BinaryOperation, ()):
        formats.operation(source, node)
    for node in nodes.get(cst.FormattedString, ()):
        formats.formatted(source, node)
    for node in nodes.get(cst.SimpleString, ()):
        if id(node) in source.done or "b" in node.prefix or isinstance(source.names.parent(node), cst.ConcatenatedString):
            continue
        value = node.raw_value
        match = _DEVICE.match(value)
        if match:
            device(source, node, match.group(1))
        elif "cuda:" in value and formats.method(source, node):
            pass
        elif value == "cuda:":
            use = use_of(source, node)
            if use.kind == "compare" or _string_method(use):
                source.add("device-comparison", source.tree.span(node), node, severity=REVIEW)
        elif not (source.build and build.text(source, node, value)):
            texts.text(source, node, value)


def device(source: Source, node: cst.BaseExpression, index: str | None) -> None:
    """A string that is exactly a device name."""
    use = use_of(source, node)
    if use.kind in ("statement", "log") or use.kind == "annotation":
        return
    if source.build and use.kind == "key" and build.extra(source, node, "cuda"):
        return
    if source.build and not (use.kind == "argument" and source.names.qualified(use.call.func).startswith("torch.")):
        if use.kind not in ("key", "other") and not (use.kind == "argument" and dotted(use.call.func).endswith("join")):
            source.add("build-flavor", source.tree.span(node), node)
        return
    if isinstance(source.names.parent(use.node), cst.Arg) and formats.device_call(source, node, use, index):
        return
    if use.kind == "argument" and use.node is node and source.target != TORCH:
        function = source.names.qualified(use.call.func)
        position = arguments.DEVICE_ARGUMENT.get(function.rsplit(".", 1)[-1])
        if function.startswith("torch.cuda.") and position is not None and (use.name == "device" or use.position == position):
            if not any(arg.star for arg in use.call.args):
                return  # the finding of the call replaces it by an index
    rule = rules.BY_ID["device-string-index" if index else "device-string"]
    template = source.template(rule)
    if template is not None and index:
        template = template.replace("{{0}}", "{0}")  # a literal needs no braces in an f-string
    values = {"0": index or ""}
    span = source.tree.span(node)
    if use.kind == "pattern":
        source.add("device-comparison", span, node, severity=REVIEW)
    elif use.kind == "subscript":
        base = source.names.parent(source.names.parent(source.names.parent(use.node)))
        name = dotted(base.value) if isinstance(base, cst.Subscript) else ""
        if name.endswith("Literal"):
            source.add("device-string-unclear",
                       span,
                       node,
                       severity=REVIEW,
                       message="A type annotation cannot be computed. Use `str` instead.")
        elif devices.is_device_name(name):
            source.add("device-string-unclear", span, node, template, values=values)
    elif use.kind == "compare" or _string_method(use):
        other = _compared(source, use)
        severity = EQUIVALENT if other is not None and _is_device_expression(source, other) else REVIEW
        finding = source.add("device-comparison", span, node, template, values=values, severity=_known(source, rule, severity))
        finding.extra["harmless"] = False
    else:
        clear = is_device(source, use)
        if clear is None:
            return
        source.add(rule.id if clear else "device-string-unclear",
                   span,
                   node,
                   template,
                   values=values,
                   severity=_known(source, rule, EQUIVALENT if clear else REVIEW))


def _known(source: Source, rule, severity: str) -> str:
    return severity if source.target in rule.to else "none"


def _string_method(use: Use) -> bool:
    return use.kind == "argument" and use.call is not None and isinstance(
        use.call.func, cst.Attribute) and use.call.func.attr.value in _STRING_METHODS


def _compared(source: Source, use: Use) -> cst.BaseExpression | None:
    """The other operand of a comparison, or the object of a string method."""
    if use.call is not None:
        return use.call.func.value
    parent = source.names.parent(use.node)
    comparison = source.names.parent(parent) if isinstance(parent, cst.ComparisonTarget) else parent
    if comparison.left is not use.node:
        return comparison.left
    return comparison.comparisons[0].comparator


def _is_device_expression(source: Source, node: cst.BaseExpression) -> bool:
    """Whether an expression is a device, its type or its name."""
    if isinstance(node, cst.Call):
        if isinstance(node.func, cst.Name) and node.func.value in ("str", "repr", "torch.device") and node.args:
            return _is_device_expression(source, node.args[0].value)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in ("lower", "strip", "split", "partition"):
            return _is_device_expression(source, node.func.value)
        if node.args and isinstance(node.func, cst.Attribute) and node.func.attr.value in ("get", "pop") and literal(
                node.args[0].value):
            return devices.is_device_name(literal(node.args[0].value))
        return source.names.qualified(node.func) == "torch.device" or devices.is_device_name(dotted(node.func))
    if isinstance(node, cst.Subscript):
        index = node.slice[0].slice
        key = literal(index.value) if isinstance(index, cst.Index) else None
        return devices.is_device_name(key or "") or _is_device_expression(source, node.value)
    if isinstance(node, cst.Attribute):
        return node.attr.value in ("type", "device", "device_type") or devices.is_device_name(node.attr.value)
    if isinstance(node, cst.Name):
        return devices.is_device_name(node.value) or _flows_to_device(source, node)
    return False


def is_device(source: Source, use: Use) -> bool | None:
    """Whether a use of "cuda" names a device: None if it certainly does not."""
    if use.kind == "argument":
        return _argument(source, use)
    if use.kind == "key":
        container = source.names.parent(source.names.parent(use.node))
        outer = use_of(source, container)
        if devices.is_device_name(outer.name) and "module" not in outer.name:
            return True
        keys = [literal(e.key) for e in container.elements if isinstance(e, cst.DictElement) and e.key is not use.node]
        return False if any((key or "").split(":")[0] in _DEVICE_TYPES for key in keys) else None
    if use.kind in ("assign", "default"):
        if any(devices.is_device_name(name) for name in use.name.split(",")) or _is_alternative(use):
            return True
        return _flows_to_device(source, use.node)
    if use.kind == "return":
        return devices.is_device_name(use.name) or _is_alternative(use) or "cpu" in use.others
    if use.kind == "iterate":
        return devices.is_device_name(use.name) or _is_alternative(use)
    return _is_alternative(use)


def _is_alternative(use: Use) -> bool:
    return any(text.split(":")[0] in _DEVICE_TYPES for text in use.others)


def _argument(source: Source, use: Use) -> bool | None:
    call = use.call
    function = dotted(call.func) or (call.func.attr.value if isinstance(call.func, cst.Attribute) else "")
    last = function.rsplit(".", 1)[-1]
    first = literal(call.args[0].value) if call.args else None
    if last in ("add_argument", "add_option", "Option", "Argument", "option", "argument", "field", "Field", "ArgumentParser",
                "add_flag"):
        if use.position == 0 and last in ("Option", "Argument", "Field"):
            return devices.is_device_name(use_of(source, call).name) or _is_alternative(use)  # typer and pydantic: the default
        if use.name in ("", "help", "dest", "metavar", "name"):
            return None
        if use.name not in ("default", "choices", "const"):
            return devices.is_device_name(use.name)
        options = " ".join(text for arg in call.args if (text := literal(arg.value)))
        owner = source.names.parent(call)
        options += " " + (use_of(source, call).name if not isinstance(owner, cst.Expr) else "")
        return devices.is_device_name(options) or _is_alternative(use)
    if last == "parametrize":
        return devices.is_device_name(first or "") or _is_alternative(use)
    if last in _KEYS or function.endswith("environ.get"):
        if use.position == 0:
            return None
        keys = [text for arg in call.args if (text := literal(arg.value)) and arg.value is not use.node]
        return any(devices.is_device_name(key) for key in keys) or _is_alternative(use)
    if last in _TEXT_CALLS:
        if last in ("hasattr", "getattr") and use.position == 1 and source.names.qualified(call.args[0].value) == "torch":
            return False if last == "hasattr" else None  # getattr(torch, "cuda") is found as a name
        return None
    name = parameter_name(source, use)
    if name:
        if devices.is_device_name(name) or _is_alternative(use) and name not in ("accelerator", "only_for"):
            return True
        return None if name in _NOT_DEVICES else source.names.qualified(call.func).startswith("torch.")
    qualified = source.names.qualified(call.func)
    if qualified.startswith("torch.library") or last in ("impl", "Library"):
        return False
    if last in ("append", "add", "extend", "insert"):
        return devices.is_device_name(function) or _is_alternative(use)
    return True


def _flows_to_device(source: Source, node: cst.CSTNode) -> bool:
    """Whether the variable that `node` is assigned to, or that it is, is passed as a device somewhere in its scope."""
    parent = source.names.parent(node)
    if isinstance(node, cst.Name):
        name, scope = node.value, source.names.scope_of(node)
    elif isinstance(parent, cst.Assign) and isinstance(parent.targets[0].target, cst.Name):
        name, scope = parent.targets[0].target.value, source.names.scope_of(parent)
    elif isinstance(parent, cst.Param):
        name, scope = parent.name.value, None
    else:
        return False
    for use in source.uses_of_name(name):
        if scope is not None and source.names.scope_of(use).lookup(name) is not scope.lookup(name):
            continue
        arg = source.names.parent(use)
        call = source.names.parent(arg) if isinstance(arg, cst.Arg) else None
        if isinstance(call, cst.Call):
            if arg.keyword is not None and devices.is_device_name(arg.keyword.value):
                return True
            if arg.keyword is None and isinstance(
                    call.func, cst.Attribute) and call.func.attr.value in ("to", "device", "set_default_device", "autocast"):
                return True
    return False
