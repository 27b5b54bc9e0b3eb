"""Scopes, bindings and qualified names of a Python source."""

from __future__ import annotations

import dataclasses

import libcst as cst

# Fields that hold whitespace and punctuation; the walk skips them.
_SKIP = {
    "lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "leading_lines", "lines_after_decorators", "header", "footer",
    "comma", "equal", "semicolon", "newline", "comment", "dot", "colon", "indent", "first_line", "empty_lines", "asynchronous",
    "operator", "star", "posonly_ind", "star_ind", "lines_after_module_docstring"
}


@dataclasses.dataclass
class Binding:
    """One place that binds a name. `value` is the node that gives the value, if there is one."""

    kind: str  # import, star, value, parameter, definition, other
    node: cst.CSTNode
    scope: Scope
    qualified: str = ""
    value: cst.CSTNode | None = None


class Scope:
    """A module, class, function, lambda or comprehension."""

    def __init__(self, kind: str, parent: Scope | None, node: cst.CSTNode):
        self.kind, self.parent, self.node = kind, parent, node
        self.bindings: dict[str, list[Binding]] = {}
        self.outer_names: dict[str, Scope] = {}  # global and nonlocal
        self.stars: list[str] = []

    def module(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def lookup(self, name: str) -> list[Binding]:
        """The bindings that a use of `name` in this scope can see."""
        scope: Scope | None = self
        first = True
        while scope is not None:
            if name in scope.outer_names:
                scope = scope.outer_names[name]
                return scope.lookup(name) if scope is not self else scope.bindings.get(name, [])
            if (scope.kind != "class" or first) and name in scope.bindings:
                return scope.bindings[name]
            first = first and scope.kind == "comprehension"
            scope = scope.parent
        return []

    def bind(self, name: str, binding: Binding) -> None:
        self.outer_names.get(name, self).bindings.setdefault(name, []).append(binding)


class Names:
    """The scope and the parent of each node that matters, and the nodes by class."""

    def __init__(self, module: cst.Module):
        self.scope = Scope("module", None, module)
        self.parents: dict[int, cst.CSTNode] = {}
        self.scopes: dict[int, Scope] = {}
        self.nodes: dict[type, list] = {}
        self.all_scopes = [self.scope]
        self._resolving: set[int] = set()
        self._walk(module)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self.parents.get(id(node))

    def scope_of(self, node: cst.CSTNode) -> Scope:
        return self.scopes[id(node)]

    def qualified(self, node: cst.CSTNode) -> str:
        """The qualified name of an expression: `torch.cuda.synchronize`, or "" if it is unknown."""
        if isinstance(node, cst.Attribute):
            base = self.qualified(node.value)
            return f"{base}.{node.attr.value}" if base else ""
        if isinstance(node, cst.Name):
            return self._qualified_name(node)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "getattr" and len(node.args) >= 2:
            base = self.qualified(node.args[0].value)
            name = node.args[1].value
            if base and isinstance(name, cst.SimpleString):
                return f"{base}.{name.raw_value}"
        return ""

    def _qualified_name(self, node: cst.Name) -> str:
        scope = self.scopes.get(id(node), self.scope)
        bindings = scope.lookup(node.value)
        if not bindings:
            return "torch" if node.value == "torch" else ""
        found = {b.qualified for b in bindings if b.kind == "import"}
        if len(found) == 1:
            return found.pop()
        if found:
            return ""
        values = [b for b in bindings if b.value is not None]
        if len(bindings) == 1 and values and isinstance(values[0].value,
                                                        (cst.Attribute, cst.Name)) and id(node) not in self._resolving:
            self._resolving.add(id(node))
            try:
                return self.qualified(values[0].value)
            finally:
                self._resolving.discard(id(node))
        return ""

    def _walk(self, module: cst.Module) -> None:
        stack: list[tuple[cst.CSTNode, Scope]] = [(statement, self.scope) for statement in reversed(module.body)]
        for statement in module.body:
            self.parents[id(statement)] = module
        parents, scopes, nodes = self.parents, self.scopes, self.nodes
        pending: list[tuple[Scope, str, Binding]] = []
        while stack:
            node, scope = stack.pop()
            kind = node.__class__
            scopes[id(node)] = scope
            nodes.setdefault(kind, []).append(node)
            inner: dict[str, Scope] | None = None
            bind = _BIND.get(kind)
            if bind is not None:
                for name, binding in bind(node, scope):
                    pending.append((scope, name, binding))
            if kind is cst.FunctionDef or kind is cst.Lambda or kind is cst.ClassDef:
                own = Scope("class" if kind is cst.ClassDef else "function", scope, node)
                self.all_scopes.append(own)
                inner = {"body": own}
                if kind is not cst.ClassDef:
                    for parameter in _parameters(node.params):
                        own.bindings.setdefault(parameter.name.value,
                                                []).append(Binding("parameter", parameter, own, value=parameter.default))
            elif kind in _COMPREHENSIONS:
                own = Scope("comprehension", scope, node)
                self.all_scopes.append(own)
                inner = dict.fromkeys(_fields(kind), own)
            elif kind is cst.Global:
                for item in node.names:
                    scope.outer_names[item.name.value] = scope.module()
            elif kind is cst.Nonlocal and scope.parent is not None:
                for item in node.names:
                    scope.outer_names[item.name.value] = scope.parent
            for field in _fields(kind):
                value = getattr(node, field)
                target = inner[field] if inner is not None and field in inner else scope
                if isinstance(value, cst.CSTNode):
                    parents[id(value)] = node
                    stack.append((value, target))
                elif value.__class__ in (tuple, list):
                    for child in reversed(value):
                        if isinstance(child, cst.CSTNode):
                            parents[id(child)] = node
                            stack.append((child, target))
        for scope, name, binding in pending:
            if name == "*":
                scope.stars.append(binding.qualified)
            else:
                scope.bind(name, binding)


def dotted(node: cst.CSTNode | None) -> str:
    """`a.b.c` as text, or "" if the expression is something else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr.value}" if base else ""
    return ""


_FIELDS: dict[type, tuple[str, ...]] = {}
_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


def _fields(kind: type) -> tuple[str, ...]:
    found = _FIELDS.get(kind)
    if found is None:
        # Reversed, because the walk uses a stack, which reverses them again.
        found = tuple(f.name for f in reversed(dataclasses.fields(kind)) if "whitespace" not in f.name and f.name not in _SKIP)
        _FIELDS[kind] = found
    return found


def _parameters(parameters: cst.Parameters):
    yield from parameters.posonly_params
    yield from parameters.params
    yield from parameters.kwonly_params
    for star in (parameters.star_arg, parameters.star_kwarg):
        if isinstance(star, cst.Param):
            yield star


def _import(node: cst.Import, scope: Scope):
    for alias in node.names:
        name = dotted(alias.name)
        if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
            yield alias.asname.name.value, Binding("import", alias, scope, name)
        else:
            first = name.split(".")[0]
            yield first, Binding("import", alias, scope, first)


def _import_from(node: cst.ImportFrom, scope: Scope):
    module = "." * len(node.relative) + dotted(node.module)
    if isinstance(node.names, cst.ImportStar):
        yield "*", Binding("star", node, scope, module)
        return
    for alias in node.names:
        name = dotted(alias.name)
        bound = alias.asname.name.value if alias.asname is not None and isinstance(alias.asname.name, cst.Name) else name
        yield bound, Binding("import", alias, scope, f"{module}.{name}")


def _target(target: cst.CSTNode, value: cst.CSTNode | None, scope: Scope, kind: str = "value"):
    if isinstance(target, cst.Name):
        yield target.value, Binding(kind, target, scope, value=value)
    elif isinstance(target, (cst.Tuple, cst.List)):
        values = value.elements if isinstance(value,
                                              (cst.Tuple, cst.List)) and len(value.elements) == len(target.elements) else None
        for i, element in enumerate(target.elements):
            yield from _target(element.value, values[i].value if values else None, scope, "value" if values else "other")
    elif isinstance(target, cst.StarredElement):
        yield from _target(target.value, None, scope, "other")


def _assign(node: cst.Assign, scope: Scope):
    for target in node.targets:
        yield from _target(target.target, node.value, scope)


def _as_name(node: cst.AsName, scope: Scope):
    yield from _target(node.name, None, scope, "other")


_BIND = {
    cst.Import: _import,
    cst.ImportFrom: _import_from,
    cst.Assign: _assign,
    cst.AnnAssign: lambda node, scope: _target(node.target, node.value, scope) if node.value is not None else (),
    cst.AugAssign: lambda node, scope: _target(node.target, None, scope, "other"),
    cst.NamedExpr: lambda node, scope: _target(node.target, node.value, scope),
    cst.For: lambda node, scope: _target(node.target, None, scope, "other"),
    cst.CompFor: lambda node, scope: _target(node.target, None, scope, "other"),
    cst.FunctionDef: lambda node, scope: ((node.name.value, Binding("definition", node, scope)), ),
    cst.ClassDef: lambda node, scope: ((node.name.value, Binding("definition", node, scope)), ),
    cst.WithItem: lambda node, scope: _as_name(node.asname, scope) if node.asname is not None else (),
    cst.ExceptHandler: lambda node, scope: _as_name(node.name, scope) if node.name is not None else (),
    cst.MatchAs: lambda node, scope: ((node.name.value, Binding("other", node, scope)), ) if node.name is not None else (),
}
