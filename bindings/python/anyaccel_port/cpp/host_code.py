"""Uses of CUDA in C++ host code: torch's names for CUDA, CUDA's runtime, and its libraries."""

from __future__ import annotations

import re
import typing

from .. import matching
from ..findings import EQUIVALENT, REVIEW, Edit
from ..rules import BY_ID, BY_NAME, Rule, native
from . import declarations, patterns

if typing.TYPE_CHECKING:
    from .finder import Finder


def on_method(finder: Finder, match, start, end):
    node = finder.node(start, start + 1)
    field = node if node.type == "field_expression" else node.parent
    if field is None or field.type != "field_expression":
        finder.add(BY_ID["cpp-is-cuda" if "is_" in match[0] else "cpp-tensor-cuda"], start, end, severity=REVIEW)
        return
    self_ = finder.source_of(field.child_by_field_name("argument"))
    first = finder.span(field)[0]
    arrow = match[0].startswith("->")
    if "is_" in match[0]:
        rule = BY_ID["cpp-is-cuda"]
        object_ = f"*{self_}" if arrow else self_
        if re.search(r"(?:\.|->)(?:type|options)\(\)$", self_):
            replacement = None
        elif re.search(r"(?:\.device\(\)|\bdevice_?)$", self_):
            type_ = matching.render(BY_ID["cpp-device-type"].to[finder.target], [])
            replacement = None if arrow else f"({self_}.type() == {type_})"
        else:
            replacement = matching.render(rule.to[finder.target], [], self_=object_)
        finder.add(rule, first, end, replacement)
    else:
        rule = BY_ID["cpp-tensor-cuda"]
        replacement = matching.render(rule.to[finder.target], [], self_=self_)
        if arrow:
            replacement = self_ + "->" + replacement[len(self_) + 1:]
        finder.add(rule, first, end, replacement, edits=(Edit(start, end, replacement[len(self_):]), ))


def on_dispatch(finder: Finder, match, start, end):
    if match[0].startswith("TORCH_LIBRARY_IMPL"):
        close = finder.blanked.closing(end - 1)
        if close is None or not re.search(r",\s*\w*CUDA\s*,", finder.code[start:close]):
            return
        end = close
    finder.add(BY_ID["cpp-dispatch-key"], start, end)


def on_legacy(finder: Finder, match, start, end):
    finder.add(BY_ID["cpp-library-handle" if "Handle" in match[0] else "cpp-cuda-other"], start, end)


def on_macro(finder: Finder, match, start, end):
    node = finder.node(start, end)
    call = finder.call_of(node)
    inner = None
    if call is not None:
        inner = patterns.CANDIDATE.search(finder.code, end, finder.span(call)[1])
    if inner is not None and inner.lastgroup in ("runtime", "library", "driver", "nccl", "qualified"):
        return  # the call inside is reported
    rule = BY_NAME.get("c++:" + match[0], BY_ID["cpp-check-macro"] if "CHECK" in match[0] else BY_ID["cpp-cuda-other"])
    finder.add(rule, start, finder.span(call)[1] if call is not None else end)


def on_qualified(finder: Finder, match, start, end):
    start += len(match[0]) - len(match[0].lstrip(": \n"))
    _member(finder, finder.names.resolve(finder.code[start:end]), start, end)


def on_bare(finder: Finder, match, start, end):
    if match[0].split("::")[0] in finder.names.defined or finder.of_object(start):
        return
    name = "detail::" + match[0] if match[0] == "getDefaultCUDAGenerator" else match[0]
    if "CUDA" not in match[0] and not finder.names.opened:
        return
    _member(finder, "at::cuda::" + name, start, end)


def _member(finder: Finder, name: str | None, start: int, end: int):
    """A member of c10::cuda, at::cuda or torch::cuda, or a device type."""
    if name is None:
        return
    rule = BY_NAME.get("c++:" + name)
    if rule is None:
        parts = name.split("::")
        rule = next((r for n in range(len(parts) - 1, 0, -1) if (r := BY_NAME.get("c++:" + "::".join(parts[:n]) + "::*"))),
                    None)
        if rule is None:
            return
    node = finder.name_node(start, end)
    if node.parent is not None and node.parent.type == "using_declaration":
        finder.add(BY_ID["cpp-using"], *finder.span(node.parent))
        return
    if rule.id == "cpp-device-type":
        declarations.device_type(finder, node, start, end)
    elif rule.id in declarations.DECLARED:
        declarations.declared(finder, rule, node, start, end)
    else:
        _call(finder, rule, node, start, end)


def _call(finder: Finder, rule: Rule, node, start: int, end: int):
    call = finder.call_of(node)
    if call is None:
        finder.add(rule, start, end, None, severity=REVIEW if rule.severity == EQUIVALENT else None)
        return
    template = rule.to.get(finder.target)
    arguments = finder.arguments(call)
    first, last = start, finder.span(call)[1]
    if rule.id == "cpp-is-available" and declarations.choice(finder, call):
        return
    if template is None:
        finder.add(rule, first, last)
        return
    replacement = matching.render(template, arguments)
    if rule.id in native.STATEMENTS:
        statement, outer = finder.statement(call)
        if statement is None:
            finder.add(rule,
                     first,
                     last,
                     replacement,
                     severity=REVIEW if rule.severity_for(finder.target) == EQUIVALENT else None,
                     edits=())
        else:
            finder.add(rule, finder.span(outer)[0], finder.span(outer)[1], replacement)
        return
    severity = None
    if rule.id in ("cpp-current-stream", "cpp-default-stream", "cpp-new-stream", "cpp-default-generator"):
        severity = declarations.uses(finder, rule, call, arguments)
    elif rule.id == "cpp-set-stream" and not (len(arguments) == 1 and declarations.is_stream(finder, arguments[0], call)):
        severity = REVIEW
    edits = None
    if len(arguments) and "{args}" in template and template.endswith("({args})"):
        edits = (Edit(start, end, template[:-len("({args})")]), )
    finder.add(rule, first, last, replacement, severity=severity, edits=() if severity == REVIEW else edits)


def on_runtime(finder: Finder, match, start, end):
    if match[0] in finder.names.defined or finder.of_object(start):
        return
    rule = _prefix_rule(finder, match[0])
    node = finder.node(start, end)
    call = finder.call_of(node)
    if call is None and node.parent is not None and node.parent.type == "template_function":
        call = finder.call_of(node.parent)
    if call is not None and rule.to:
        _call(finder, rule, node, start, end)
    else:
        _simple(finder, rule, call, start, end)


def _simple(finder: Finder, rule: Rule, call, start: int, end: int):
    """A name or a call that has no replacement. Its arguments belong to it."""
    if call is None:
        finder.add(rule, start, end)
        return
    _, outer = finder.statement(call)
    finder.add(rule, *finder.span(outer if finder.span(outer)[0] >= finder.done else call))


def _prefix_rule(finder: Finder, name: str) -> Rule:
    if rule := BY_NAME.get("c++:" + name):
        return rule
    for length in range(len(name), 1, -1):
        if rule := BY_NAME.get(f"c++:{name[:length]}*"):
            return rule
    return BY_ID["cpp-runtime-other"]


def _group(finder: Finder, rule_id: str, start: int, end: int):
    name = finder.code[start:end]
    if name in finder.names.defined:
        return
    rule = BY_NAME.get("c++:" + name, BY_ID[rule_id])
    node = finder.node(start, end)
    call = finder.call_of(node)
    if call is not None and rule.to:
        _call(finder, rule, node, start, end)
    else:
        _simple(finder, rule, call, start, end)


def on_driver(finder: Finder, match, start, end):
    _group(finder, "cpp-driver", start, end)


def on_old(finder: Finder, match, start, end):
    if "Check" in match[0] and (inner := finder.code.find("cuda", end,
                                                        end + 20)) != -1 and not finder.code[end:inner].strip(" (\n"):
        return  # the call inside is reported
    _group(finder, "cpp-thc", start, end)


def on_nccl(finder: Finder, match, start, end):
    _group(finder, "cpp-nccl", start, end)


def on_library(finder: Finder, match, start, end):
    _group(finder, "cpp-library", start, end)


HANDLERS = {
    "method": on_method,
    "dispatch": on_dispatch,
    "legacy": on_legacy,
    "macro": on_macro,
    "qualified": on_qualified,
    "bare": on_bare,
    "runtime": on_runtime,
    "driver": on_driver,
    "old": on_old,
    "nccl": on_nccl,
    "library": on_library,
}
