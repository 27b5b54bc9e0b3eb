"""How a program uses a string: as an argument, a default, an operand of a comparison, ..."""

from __future__ import annotations

import dataclasses

import libcst as cst

from .scopes import dotted
from .source import Source

_LOGS = ("print", "log", "debug", "info", "warning", "warn", "error", "critical", "exception", "print_rank_0", "print_rank_last",
         "print0", "log_single_rank", "add_scalar", "rank0_print", "log_dist", "tqdm", "set_description", "write")


@dataclasses.dataclass
class Use:
    """`kind` is one of argument, assign, default, return, key, subscript, compare, format, fstring,
    annotation, pattern, statement, log, iterate and other.

    `name` is the keyword, parameter, variable, function or key that receives the string. `node` is
    the largest expression that has the string as its value, and `others` are other strings that
    can have the same role: elements of the same collection, and alternatives.
    """

    kind: str
    node: cst.CSTNode
    name: str = ""
    call: cst.Call | None = None
    position: int | None = None
    others: list[str] = dataclasses.field(default_factory=list)
    collection: bool = False


def literal(node: cst.CSTNode | None) -> str | None:
    """The value of a plain string."""
    if isinstance(node, cst.SimpleString) and "b" not in node.prefix:
        return node.raw_value
    return None


def use_of(source: Source, node: cst.CSTNode) -> Use:
    names = source.names
    others: list[str] = []
    collection = False
    key = ""
    while True:
        parent = names.parent(node)
        if isinstance(parent, cst.Element):
            container = names.parent(parent)
            if names.parent(container) is None or not isinstance(container, (cst.List, cst.Tuple, cst.Set)):
                return Use("other", node)
            others += [text for e in container.elements if e is not parent and (text := literal(e.value)) is not None]
            collection = True
            node = container
        elif isinstance(parent, cst.IfExp):
            if node is parent.test:
                return Use("other", node)
            other = parent.orelse if node is parent.body else parent.body
            others += [text for text in [literal(other)] if text is not None]
            node = parent
        elif isinstance(parent, (cst.BooleanOperation, cst.NamedExpr)):
            node = parent
        elif isinstance(parent, cst.DictElement):
            if node is parent.key:
                return Use("key", node, others=others)
            key = key or literal(parent.key) or dotted(parent.key)
            collection = True
            node = names.parent(parent)
        else:
            break
    use = _use(source, node, parent)
    use.others = others
    use.collection = collection
    if key and use.kind not in ("compare", "log"):
        use.name = key if use.kind in ("assign", "argument", "return", "other", "default") and not use.name.endswith(
            ("device_map", "map_location")) else use.name
    return use


def _use(source: Source, node: cst.CSTNode, parent: cst.CSTNode | None) -> Use:
    names = source.names
    if isinstance(parent, cst.Expr):
        return Use("statement", node)
    if isinstance(parent, cst.Arg):
        call = names.parent(parent)
        if not isinstance(call, cst.Call):
            return Use("other", node)  # a keyword of a class
        function = dotted(call.func) or (call.func.attr.value if isinstance(call.func, cst.Attribute) else "")
        if function.rsplit(".", 1)[-1] in _LOGS or function.endswith(("Error", "Exception", "Warning")) or function.startswith(
            ("logging.", "logger.", "warnings.")):
            return Use("log", node, call=call)
        if function.endswith(".format") and isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.SimpleString):
            return Use("other", node)
        position = None if parent.keyword else next(i for i, arg in enumerate(call.args) if arg is parent)
        return Use("argument", node, parent.keyword.value if parent.keyword else "", call, position)
    if isinstance(parent, cst.AssignTarget) or isinstance(parent, cst.Assign):
        target = parent.targets[-1].target if isinstance(parent, cst.Assign) else node
        return Use("assign", node, target_name(target))
    if isinstance(parent, (cst.AnnAssign, cst.AugAssign)):
        return Use("assign", node, target_name(parent.target))
    if isinstance(parent, cst.Param):
        return Use("default", node, parent.name.value)
    if isinstance(parent, (cst.Return, cst.Lambda, cst.Yield)):
        return Use("return", node, _function_name(source, node))
    if isinstance(parent, (cst.Comparison, cst.ComparisonTarget)):
        return Use("compare", node)
    if isinstance(parent, cst.Index):
        return Use("subscript", node)
    if isinstance(parent, cst.Annotation):
        return Use("annotation", node)
    if isinstance(parent, cst.MatchValue):
        return Use("pattern", node)
    if isinstance(parent, (cst.FormattedStringExpression, cst.ConcatenatedString)):
        return Use("fstring", node)
    if isinstance(parent, (cst.BinaryOperation, cst.Attribute)):
        return Use("format", node)
    if isinstance(parent, (cst.For, cst.CompFor)):
        return Use("iterate", node, target_name(parent.target))
    if isinstance(parent, (cst.Raise, cst.Assert)):
        return Use("log", node)
    return Use("other", node)


def target_name(target: cst.CSTNode) -> str:
    if isinstance(target, cst.Subscript) and len(target.slice) == 1:
        index = target.slice[0].slice
        return (isinstance(index, cst.Index) and literal(index.value)) or dotted(target.value)
    if isinstance(target, cst.Tuple):
        return ",".join(target_name(e.value) for e in target.elements)
    return dotted(target) or (target.attr.value if isinstance(target, cst.Attribute) else "")


def _function_name(source: Source, node: cst.CSTNode) -> str:
    scope = source.names.scopes.get(id(node))
    while scope is not None:
        if isinstance(scope.node, cst.FunctionDef):
            return scope.node.name.value
        scope = scope.parent
    return ""


def parameter_name(source: Source, use: Use) -> str:
    """The name of the parameter that an argument goes to, if the function is in this source."""
    if use.kind != "argument" or use.name or use.call is None or not isinstance(use.call.func, cst.Name) or use.position is None:
        return use.name
    for binding in source.names.scope_of(use.call).lookup(use.call.func.value):
        definition, skip = binding.node, 0
        if isinstance(definition, cst.ClassDef):
            methods = [s for s in definition.body.body if isinstance(s, cst.FunctionDef) and s.name.value == "__init__"]
            definition, skip = (methods[0] if methods else None), 1
        if isinstance(definition, cst.FunctionDef):
            parameters = [*definition.params.posonly_params, *definition.params.params][skip:]
            if use.position < len(parameters):
                return parameters[use.position].name.value
    return ""
