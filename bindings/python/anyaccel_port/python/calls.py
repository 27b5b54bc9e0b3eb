"""Members of torch.cuda and other names of torch, by their qualified names."""

from __future__ import annotations

import re

import libcst as cst

from .. import rules
from ..findings import Edit, Finding
from ..rules import ANYACCEL, DEEPSPEED, TORCH, Rule
from . import amp, arguments, capability, tensors
from .devices import is_device_name
from .scopes import dotted
from .source import EQUIVALENT, NONE, REVIEW, Source
from .uses import use_of

_MODULES = ("torch.cuda", "torch.cuda.amp", "torch.cuda.nvtx", "torch.cuda.memory", "torch.cuda.random", "torch.backends.cuda",
            "torch.backends.cudnn")
_NVIDIA = re.compile(r"\bversion\.(?:hip|cuda)\b|\b(?:get_device|compute)_capability\b")
_CAPABILITY = re.compile(r"\b(?:get_device|compute)_capability\b")
_SHORT = 30  # lines
_PROPERTIES = ("name", "total_memory", "multi_processor_count", "uuid")
_CLASSES = {"cuda-stream-class": "Stream", "cuda-event-class": "Event"}


def match(qualified: str) -> tuple[Rule, str] | None:
    """The rule of a qualified name, and the part of the name that it matches."""
    if qualified.startswith(("torch._C._cuda", "torch._C._nccl")):
        return rules.BY_ID["cuda-private"], qualified
    parts = qualified.split(".")
    for length in range(len(parts), 1, -1):
        prefix = ".".join(parts[:length])
        rule = rules.BY_NAME.get(prefix)
        if rule is not None and (length == len(parts) or prefix not in _MODULES):
            return rule, prefix
    rule = rules.find(qualified)
    return (rule, qualified) if rule is not None else None


def find_names(source: Source) -> None:
    names = source.names
    candidates = [node for node in names.nodes.get(cst.Attribute, ()) if not isinstance(names.parent(node), cst.Attribute)]
    interesting = {
        name
        for name, bindings in source.bound.items() if any(b.kind == "import" and b.qualified.startswith("torch.") for b in bindings)
    }
    for node in names.nodes.get(cst.Name, ()):
        if node.value in interesting and not isinstance(names.parent(node),
                                                        (cst.Attribute, cst.ImportAlias, cst.ImportFrom, cst.AsName)):
            candidates.append(node)
    candidates += [
        node for node in names.nodes.get(cst.Call, ()) if isinstance(node.func, cst.Name) and node.func.value == "getattr"
    ]
    for node in candidates:
        parent = names.parent(node)
        if isinstance(parent, (cst.ImportAlias, cst.ImportFrom)) or id(node) in source.done:
            continue
        if isinstance(parent,
                      (cst.Arg, cst.Param, cst.NameItem)) and node is not getattr(parent, "value", None) and node is not getattr(
                          parent, "default", None):
            continue  # a keyword or a parameter
        _name(source, node)
    tensors.find_constructors(source)


def _name(source: Source, node: cst.BaseExpression) -> None:
    qualified = source.names.qualified(node)
    if not qualified.startswith("torch."):
        return
    if isinstance(node, cst.Name):
        bindings = source.names.scope_of(node).lookup(node.value)
        if not any(b.kind == "import" for b in bindings):
            return  # an alias: the finding is where it is assigned
    found = match(qualified)
    if found is None:
        return
    rule, matched = found
    for _ in range(qualified.count(".") - matched.count(".")):
        if not isinstance(node, cst.Attribute):
            break
        node = node.value  # torch.cuda.Event.record: the rule is for torch.cuda.Event
    if id(node) in source.done:
        return
    parent = source.names.parent(node)
    call = parent if isinstance(parent, cst.Call) and parent.func is node else None
    _replace(source, rule, matched, node, call)


def _replace(source: Source, rule: Rule, name: str, node: cst.BaseExpression, call: cst.Call | None) -> None:
    last = name.rsplit(".", 1)[-1]
    span = source.tree.span(node)
    template = source.template(rule)
    if amp.replace(source, rule, last, node, call) or tensors.replace(source, rule, last, node, call):
        return
    if rule.id == "attention-backend":
        _attention_backend(source, rule, node)
    elif rule.id == "profiler-activity":
        _activity(source, rule, node)
    elif rule.id == "cuda-is-available" and _asks_for_nvidia(source, node):
        source.add(rule.id,
                   span,
                   node,
                   severity=REVIEW,
                   message="The condition asks for a device of NVIDIA, or for one of its features.")
    elif name == "torch.version.cuda" and _is_parsed(source, node):
        source.add(rule.id, span, node, '(torch.version.cuda or "0.0")', severity=REVIEW)
    elif rule.id in _CLASSES and call is None:
        _class(source, rule, node)
    elif rule.id == "cuda-current-device" and call is not None and source.target != TORCH and _is_device_position(source, call):
        source.add(rule.id,
                   source.tree.span(call),
                   node,
                   "{acc}.current_device_name()",
                   message="A device needs a name: on the CPU, torch does not accept an index as a device.")
    elif rule.id == "cuda-get-device-properties" and call is not None:
        _properties(source, rule, node, call)
    elif rule.id == "cuda-get-device-capability" and template is not None and call is not None:
        finding = source.add(rule.id, span, node, template, message=capability.explain(source, call))
        _extend(source, finding, call, arguments.edits(source, last, call))
    elif rule.id == "cuda-default-generators":
        _generators(source, rule, node)
    elif template is None:
        source.add(rule.id, span, node)
    elif not any(p in template for p in ("{args}", "{0}")):
        extra = arguments.edits(source, last, call) if call is not None else ()
        finding = source.add(rule.id, span, node, template, values={"name": last})
        _extend(source, finding, call, extra)
        if call is None and finding.severity == EQUIVALENT and "{acc}" in template and _is_patched(source, node):
            finding.severity = REVIEW
    elif call is None:
        source.add(rule.id, span, node, severity=REVIEW)
    else:
        _call(source, rule, template, last, node, call)


def _call(source: Source, rule: Rule, template: str, last: str, node: cst.BaseExpression, call: cst.Call) -> None:
    pieces = {}
    template = arguments.place(source, template, call, pieces)
    finding = source.add(rule.id, source.tree.span(call), node, template, pieces, values={"name": last})
    _extend(source, finding, call, arguments.edits(source, last, call))


def _extend(source: Source, finding: Finding, call: cst.Call | None, edits: tuple[Edit, ...]) -> None:
    """Adds the edits of a call's arguments; the finding then includes the call."""
    if edits and call is not None:
        finding.edits += edits
        finding.end = max(finding.end, source.tree.span(call)[1])


def _asks_for_nvidia(source: Source, node: cst.BaseExpression) -> bool:
    """Whether the condition guards code for NVIDIA: the rest of the condition, the statement or the short function around it
    uses the version of CUDA or the compute capability, which other accelerators do not have."""
    outer = source.names.parent(node)
    while isinstance(source.names.parent(outer), cst.BooleanOperation):
        outer = source.names.parent(outer)
    if isinstance(outer, cst.BooleanOperation) and _NVIDIA.search(source.tree.source(outer)):
        return True
    below = node
    while outer is not None and not isinstance(outer, (cst.FunctionDef, cst.Module)):
        if isinstance(outer, cst.If) and outer.test is below and _CAPABILITY.search(source.tree.source(outer.body)):
            return True
        below, outer = outer, source.names.parent(outer)
    if not isinstance(outer, cst.FunctionDef):
        return False
    text = source.tree.source(outer.body)
    return text.count("\n") <= _SHORT and bool(_CAPABILITY.search(text))


def _is_parsed(source: Source, node: cst.BaseExpression) -> bool:
    """Whether the program fails if a version is None: version.split(), version[:2], version > "11", float(version)."""
    parent = source.names.parent(node)
    if isinstance(parent, cst.Comparison):
        return isinstance(parent.comparisons[0].operator, (cst.LessThan, cst.GreaterThan, cst.LessThanEqual, cst.GreaterThanEqual))
    if isinstance(parent, cst.Arg) and isinstance(source.names.parent(parent), cst.Call):
        return dotted(source.names.parent(parent).func).rsplit(".", 1)[-1] in ("float", "parse", "Version", "LooseVersion")
    return isinstance(parent, (cst.Attribute, cst.Subscript))


def _is_patched(source: Source, node: cst.BaseExpression) -> bool:
    """Whether the name is assigned to, or deleted: torch.cuda.is_available = lambda: False."""
    return isinstance(source.names.parent(node), (cst.AssignTarget, cst.AugAssign, cst.Del))


def _class(source: Source, rule: Rule, node: cst.BaseExpression) -> None:
    """torch.cuda.Stream and Event where a class is needed: annotations, isinstance() and base classes."""
    name = _CLASSES[rule.id]
    parent = source.names.parent(node)
    is_base = isinstance(parent, cst.Arg) and isinstance(source.names.parent(parent), cst.ClassDef)
    while isinstance(parent, (cst.Index, cst.SubscriptElement, cst.Subscript, cst.BinaryOperation)):
        parent = source.names.parent(parent)
    # AnyAccel's events are not instances of torch.Event; annotations do not matter at run time.
    checked = source.target == ANYACCEL and not isinstance(parent, cst.Annotation)
    source.add(rule.id,
               source.tree.span(node),
               node,
               f"{{acc}}.{name}" if checked else f"torch.{name}",
               severity=REVIEW if is_base else EQUIVALENT,
               message=f"The class of the accelerator's {name.lower()}s.")


def _attention_backend(source: Source, rule: Rule, node: cst.BaseExpression) -> None:
    """The first backend of a selection without SDPBackend.MATH."""
    selection = source.names.parent(source.names.parent(node))
    if isinstance(selection, (cst.List, cst.Tuple, cst.Set)):
        names = [source.names.qualified(element.value) for element in selection.elements]
        if id(selection) in source.done or any(name.endswith("SDPBackend.MATH") for name in names):
            return
        source.done.add(id(selection))
    source.add(rule.id, source.tree.span(node), node)


def _activity(source: Source, rule: Rule, node: cst.BaseExpression) -> None:
    """ProfilerActivity.CUDA: a list of all activities becomes a call, which returns those of the accelerator too."""
    use = use_of(source, node)
    whole = isinstance(use.node, (cst.List, cst.Tuple, cst.Set)) and all(
        source.names.qualified(e.value).endswith((".ProfilerActivity.CPU", ".ProfilerActivity.CUDA")) for e in use.node.elements)
    if whole and len(use.node.elements) > 1 and use.kind in ("argument", "assign"):
        source.add(rule.id, source.tree.span(use.node), node, source.template(rule))
    else:
        source.add(rule.id, source.tree.span(node), node, severity=REVIEW)


def _is_device_position(source: Source, call: cst.Call) -> bool:
    """Whether the value of torch.cuda.current_device() is used as a device rather than as a number."""
    use = use_of(source, call)
    if use.kind == "argument" and use.node is call:
        if use.name:
            return is_device_name(
                use.name) and use.name not in ("device_ids", "device_index", "device_id", "device_mesh", "output_device")
        function = use.call.func
        name = function.attr.value if isinstance(function, cst.Attribute) else ""
        return name in ("to", "to_empty") or source.names.qualified(function) == "torch.device" and len(use.call.args) == 1
    if use.kind in ("assign", "default", "return"):
        return is_device_name(use.name) and use.name.rsplit(
            ".", 1)[-1] not in ("device_ids", "device_index", "device_mesh") and not use.collection
    return False


def _properties(source: Source, rule: Rule, node: cst.BaseExpression, call: cst.Call) -> None:
    attribute = source.names.parent(call)
    member = attribute.attr.value if isinstance(attribute, cst.Attribute) and attribute.value is call else ""
    if source.target == DEEPSPEED and member == "total_memory":
        pieces = {}
        template = arguments.place(source, "{acc}.total_memory({args})", call, pieces)
        finding = source.add(rule.id, source.tree.span(attribute), node, template, pieces, severity=EQUIVALENT)
    else:
        known = (member in _PROPERTIES or _known_members(source, call)) and rule.severity_for(source.target) != NONE
        finding = source.add(rule.id, source.tree.span(node), node, source.template(rule), severity=EQUIVALENT if known else "",
                             message="" if known else capability.explain(source, call))
    if finding.edits:
        _extend(source, finding, call, arguments.edits(source, "get_device_properties", call))


def _known_members(source: Source, call: cst.Call) -> bool:
    """Whether the properties are assigned to a variable that is used only for members that every accelerator has."""
    assign = source.names.parent(call)
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1 or not isinstance(assign.targets[0].target, cst.Name):
        return False
    target = assign.targets[0].target
    bindings = source.names.scope_of(target).lookup(target.value)
    uses = [
        use for use in source.uses_of_name(target.value)
        if all(use is not b.node for b in bindings) and source.names.scope_of(use).lookup(target.value) is bindings
    ]
    parents = [source.names.parent(use) for use in uses]
    return bool(uses) and all(isinstance(p, cst.Attribute) and p.attr.value in _PROPERTIES for p in parents)


def _generators(source: Source, rule: Rule, node: cst.BaseExpression) -> None:
    subscript = source.names.parent(node)
    template = source.template(rule)
    if template is None or not isinstance(subscript, cst.Subscript) or len(
            subscript.slice) != 1 or not isinstance(subscript.slice[0].slice, cst.Index):
        source.add(rule.id, source.tree.span(node), node, severity="" if template is None else REVIEW)
        return
    source.add(rule.id, source.tree.span(subscript), node, template, {"0": source.tree.outer(subscript.slice[0].slice.value)})
