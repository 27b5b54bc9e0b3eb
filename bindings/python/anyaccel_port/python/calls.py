"""Members of torch.cuda and other names of torch, by their qualified names."""

from __future__ import annotations

import libcst as cst

from .. import rules
from ..rules import Rule
from .source import REVIEW, Source

_MODULES = ("torch.cuda", "torch.cuda.amp", "torch.cuda.nvtx", "torch.cuda.comm", "torch.cuda.nccl")


def match(qualified: str) -> tuple[Rule, str] | None:
    """The rule of a qualified name, and the part of the name that it matches."""
    parts = qualified.split(".")
    for length in range(len(parts), 1, -1):
        prefix = ".".join(parts[:length])
        rule = rules.BY_NAME.get(prefix)
        if rule is not None and (length == len(parts) or prefix not in _MODULES):
            return rule, prefix
    rule = rules.find(qualified)
    if rule is None:
        return None
    return rule, qualified


def find_names(source: Source) -> None:
    names = source.names
    for node in [*names.nodes.get(cst.Attribute, ()), *names.nodes.get(cst.Name, ())]:
        parent = names.parent(node)
        if isinstance(parent, cst.Attribute) or id(node) in source.done or isinstance(parent, (cst.ImportAlias, cst.ImportFrom, cst.AsName)):
            continue  # a part of a longer name, or an import
        if isinstance(parent, (cst.Arg, cst.Param)) and node is not getattr(parent, "value", None) and node is not getattr(parent, "default", None):
            continue  # a keyword or a parameter
        _name(source, node)


def _name(source: Source, node: cst.BaseExpression) -> None:
    if isinstance(node, cst.Name) and source.names.scope_of(node).lookup(node.value) == [] and node.value != "torch":
        return
    qualified = source.names.qualified(node)
    if not qualified.startswith("torch.") or isinstance(node, cst.Name) and _is_binding(source, node):
        return
    found = match(qualified)
    if found is None:
        return
    rule, matched = found
    for _ in range(qualified.count(".") - matched.count(".")):
        node = node.value  # torch.cuda.Event.record: the rule is for torch.cuda.Event
    call = source.names.parent(node)
    call = call if isinstance(call, cst.Call) and call.func is node else None
    replace(source, rule, matched, node, call)


def _is_binding(source: Source, node: cst.Name) -> bool:
    return any(b.node is node for b in source.names.scope_of(node).lookup(node.value))


def replace(source: Source, rule: Rule, name: str, node: cst.BaseExpression, call: cst.Call | None) -> None:
    span = source.tree.span(node)
    template = source.template(rule)
    last = {"name": name.rsplit(".", 1)[-1]}
    if template is None:
        source.add(rule.id, span, node)
        return
    if not any(p in template for p in ("{args}", "{0}", "{1}", "{self}")):
        source.add(rule.id, span, node, template, values=last)
        return
    if call is None:
        source.add(rule.id, span, node, severity=REVIEW)
        return
    span = source.tree.span(call)
    pieces: dict[str, tuple[int, int]] = {}
    if call.args:
        pieces["args"] = (source.tree.outer(call.args[0])[0], arguments_end(source, call))
    else:
        template = template.replace(", {args}", "").replace("{args}, ", "").replace("{args}", "")
    for i, arg in enumerate(call.args):
        if arg.keyword is None and not arg.star:
            pieces[str(i)] = source.tree.outer(arg.value)
        elif arg.keyword is not None:
            pieces[arg.keyword.value] = source.tree.outer(arg.value)
    if "{0}" in template and "0" not in pieces:
        source.add(rule.id, span, node, severity=REVIEW)
        return
    source.add(rule.id, span, node, template, pieces, values=last)


def arguments_end(source: Source, call: cst.Call) -> int:
    """The end of a call's last argument, without a trailing comma."""
    return source.tree.outer(call.args[-1].value)[1]
