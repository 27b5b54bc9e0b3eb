"""What surrounds a name in C++: declarations of guards, streams and events, device types in calls and
comparisons, and how a result is used."""

from __future__ import annotations

import re

from .. import matching
from ..findings import EQUIVALENT, REVIEW, Edit
from ..rules import ANYACCEL, BY_ID, Rule

DECLARED = frozenset(("cpp-cuda-guard", "cpp-optional-cuda-guard", "cpp-stream-guard", "cpp-event", "cpp-graph", "cpp-stream-type"))
# Methods that the replacement has under the same name.
_METHODS = {
    "cpp-cuda-guard": ("original_device", ),
    "cpp-stream-guard": (),
    "cpp-event": ("record", "query", "synchronize", "elapsed_time"),
    "cpp-graph": ("capture_begin", "capture_end", "replay", "reset", "pool"),
    "stream": ("id", "device_index", "query", "synchronize", "unwrap"),
    "generator": ("seed", "set_current_seed", "current_seed", "mutex", "get_state", "set_state", "device"),
}
# Expressions that are a device index, judged by their text.
_INDEX = re.compile(r"[-+]?\d+|static_cast<[^>]*>\(.*\)|"
                    r".*(?:\bget_device\(\)|\.index\(\)|\bcurrent_device\(\)|\bdevice_?(?:id|index|idx)|"
                    r"\b\w*(?:_id|_idx|_index|Index|Id|rank)|\b(?:i|id|idx|index|gpu|dev))|"
                    r"\((?:char|int|int8_t|int64_t|c10::DeviceIndex|at::DeviceIndex|signed char)\)\s*.*get_device\(\)")
_NEW_STREAM = re.compile(r"get(?:(?:Current|Default)CUDAStream|StreamFromPool)\(")
_DEVICE = re.compile(r".*(?:\.|->)device\(\)|.*\bdevice_of\(.*\)(?:\.value\(\))?|(?:torch|at|c10)::Device\(.*\)")


_DECLARATORS = ("init_declarator", "identifier", "pointer_declarator", "reference_declarator", "function_declarator")


def _scope(node):
    """The block around a node."""
    while node.parent is not None and node.type not in ("compound_statement", "translation_unit", "field_declaration_list"):
        node = node.parent
    return node


def _only(finder, name: str, node, methods: tuple[str, ...], *, arguments: bool = False) -> bool:
    """Whether a variable is used with these methods only in the block around its declaration. With
    `arguments`, it may also be passed to functions that take a stream of the accelerator."""
    scope = _scope(node)
    if scope.type == "field_declaration_list":
        return False
    start, end = finder.span(scope)
    after = finder.span(node)[1]
    for match in re.finditer(rf"(?<![\w.>:]){re.escape(name)}\b(\s*\.\s*(\w+))?", finder.code[after:end]):
        if match[2] in methods and match[2] is not None:
            continue
        before = finder.code[max(start, after + match.start() - 200):after + match.start()]
        if arguments and match[1] is None and re.search(
                r"(?:setCurrentCUDAStream|set_stream|record|CUDAStreamGuard\s+\w+|elapsed_time|record_stream)\s*[({]\s*$", before):
            continue
        return False
    return True


def declared(finder, rule: Rule, node, start: int, end: int):
    """A type that is used in a declaration: `c10::cuda::CUDAGuard guard(0);`."""
    template = rule.to.get(finder.target)
    parent = node.parent
    declarator = parent.child_by_field_name("declarator") if parent is not None and parent.type == "declaration" else None
    one = declarator is not None and parent.child_by_field_name("type") == node and \
        sum(child.type in _DECLARATORS for child in parent.children) == 1
    if template is None:
        finder.add(rule, start, end)
        return
    if rule.id == "cpp-optional-cuda-guard":
        arguments = _initializer(finder, declarator) if one else None
        good = one and (not arguments or len(arguments) == 1 and _DEVICE.fullmatch(arguments[0]))
        finder.add(rule, start, end, template, severity=None if good else REVIEW)
        return
    if rule.id == "cpp-stream-type":
        good = one and declarator.type == "init_declarator" and _NEW_STREAM.search(finder.source_of(declarator)) and \
            _only(finder, finder.source_of(declarator.child_by_field_name("declarator")), parent, _METHODS["stream"],
                  arguments=True)
        finder.add(rule, start, end, template, severity=None if good else REVIEW, edits=None if good else ())
        return
    if not one or declarator.type not in ("init_declarator", "identifier", "function_declarator"):
        finder.add(rule, start, end, severity=REVIEW)
        return
    name_node = declarator if declarator.type == "identifier" else declarator.child_by_field_name("declarator")
    name = finder.source_of(name_node)
    arguments = _initializer(finder, declarator)
    last = finder.span(declarator)[1]
    if arguments is None or name_node.type != "identifier":
        finder.add(rule, start, end, severity=REVIEW)
        return
    severity = None
    if rule.id == "cpp-cuda-guard":
        if len(arguments) != 1:
            severity = REVIEW
        elif _DEVICE.fullmatch(arguments[0]):
            rule = BY_ID["cpp-cuda-guard-device"]
            template = rule.to[finder.target]
        elif not _INDEX.fullmatch(arguments[0]):
            severity = REVIEW
        if rule.id == "cpp-cuda-guard" and not _only(finder, name, parent, _METHODS["cpp-cuda-guard"]):
            severity = REVIEW
    elif rule.id == "cpp-event":
        template, severity = _event(finder, name, parent, arguments, template)
    elif rule.id == "cpp-stream-guard":
        severity = None if len(arguments) == 1 and is_stream(finder, arguments[0], parent) else REVIEW
    elif rule.id == "cpp-graph" and arguments:
        severity = REVIEW
    finder.add(rule,
               start,
               last,
               matching.render(template, arguments, name=name),
               severity=severity,
               edits=() if severity == REVIEW else None)
    finder.done = finder.span(parent)[1]


def _event(finder, name: str, declaration, arguments: list[str], template: str) -> tuple[str, str | None]:
    timing = bool(arguments) and arguments[0] == "cudaEventDefault"
    if timing and finder.target == ANYACCEL:
        template = template.replace("Event()", "Event(true)")
    elif arguments and "DisableTiming" not in arguments[0]:
        return template, REVIEW
    if finder.target != ANYACCEL:
        return template, REVIEW
    return template, None if _only(finder, name, declaration, _METHODS["cpp-event"], arguments=True) else REVIEW


def is_stream(finder, expression: str, node) -> bool:
    """Whether an expression becomes a stream of the accelerator."""
    if re.fullmatch(r"(?:at|c10)::cuda::get(?:Current|Default)CUDAStream\([^()]*\)|(?:at|c10)::cuda::getStreamFromPool\(\)",
                    expression):
        return True
    if not re.fullmatch(r"\w+", expression):
        return False
    start, _ = finder.function(finder.span(node)[0])
    text = finder.code[start:finder.span(node)[0]]
    return bool(
        re.search(
            rf"\b(?:auto|CUDAStream)\s+{expression}\s*=\s*(?:(?:at|c10)::cuda::)?"
            r"get(?:(?:Current|Default)CUDAStream|StreamFromPool)\(",
            text))


def _initializer(finder, declarator) -> list[str] | None:
    """The arguments of a declaration's initializer; None for `= value`."""
    if declarator is not None and declarator.type == "function_declarator":  # `Guard guard(stream);` looks like one
        if _scope(declarator).type != "compound_statement":
            return None
        return [finder.source_of(a) for a in declarator.child_by_field_name("parameters").named_children if a.type != "comment"]
    if declarator is None or declarator.type != "init_declarator":
        return []
    value = declarator.child_by_field_name("value")
    if value is None or value.type not in ("argument_list", "initializer_list"):
        return None
    return [finder.source_of(a) for a in value.named_children if a.type != "comment"]


def uses(finder, rule: Rule, call, arguments: list[str]) -> str | None:
    """REVIEW unless the result of a function that returns a stream or a generator is only used in a way
    that the replacement allows."""
    if rule.id == "cpp-new-stream" and arguments:
        return REVIEW
    if rule.severity_for(finder.target) != EQUIVALENT:
        return None
    methods = _METHODS["generator" if rule.id == "cpp-default-generator" else "stream"]
    parent = call.parent
    if parent.type == "field_expression":
        return None if finder.source_of(parent.child_by_field_name("field")) in methods else REVIEW
    if parent.type == "argument_list":
        before = finder.code[max(0, finder.span(call)[0] - 200):finder.span(call)[0]]
        return None if re.search(r"(?:setCurrentCUDAStream|CUDAStreamGuard\s+\w+|\.\s*(?:record|wait_stream))\s*[({]\s*$",
                                 before) else REVIEW
    if parent.type == "init_declarator" and parent.parent.type == "declaration":
        declarator = parent.child_by_field_name("declarator")
        kind = finder.source_of(parent.parent.child_by_field_name("type"))
        if declarator.type == "identifier" and re.search(r"\bauto$|CUDAStream$", kind):
            return None if _only(finder, finder.source_of(declarator), parent.parent, methods, arguments=True) else REVIEW
    return REVIEW


def choice(finder, call) -> bool:
    """`is_available() ? torch::kCUDA : torch::kCPU`."""
    node = call
    while node.parent is not None and node.parent.type == "parenthesized_expression":
        node = node.parent
    parent = node.parent
    if parent is None or parent.type != "conditional_expression" or parent.child_by_field_name("condition") != node:
        return False
    branches = [
        re.sub(r"\b(?:torch|at|c10)::", "", finder.source_of(parent.child_by_field_name(f))) for f in ("consequence", "alternative")
    ]
    rule = BY_ID["cpp-device-choice"]
    if branches in (["kCUDA", "kCPU"], ["DeviceType::CUDA", "DeviceType::CPU"]):
        finder.add(rule, *finder.span(parent), matching.render(rule.to[finder.target], []))
        return True
    if branches == ['"cuda"', '"cpu"'] and finder.target == ANYACCEL:
        finder.add(rule, *finder.span(parent), matching.render(BY_ID["cpp-device-string"].to[finder.target], []))
        return True
    if branches in (["Device(kCUDA)", "Device(kCPU)"], ['Device("cuda")',
                                                        'Device("cpu")'], ["Device(DeviceType::CUDA)", "Device(DeviceType::CPU)"]):
        text = f"c10::Device({matching.render(rule.to[finder.target], [])})"
        finder.add(rule, *finder.span(parent), text)
        return True
    return False


def device_type(finder, node, start: int, end: int):
    """`torch::kCUDA`."""
    rule = BY_ID["cpp-device-type"]
    start, end = min(start, finder.span(node)[0]), max(end, finder.span(node)[1])
    parent = node.parent
    replacement = matching.render(rule.to[finder.target], [])
    line = finder.code[finder.code.rfind("\n", 0, start) + 1:start]
    if re.search(r"\b(?:constexpr|constinit|static_assert)\b", line):
        finder.add(rule, start, end, severity=REVIEW)
        return
    if parent is not None and parent.type == "binary_expression":
        finder.add(BY_ID["cpp-device-comparison"], start, end, replacement)
        return
    if parent is not None and parent.type == "case_statement" or parent is not None and parent.type == "template_argument_list":
        finder.add(rule, start, end, severity=REVIEW)
        return
    if parent is not None and parent.type in ("argument_list", "initializer_list"):
        arguments = [a for a in parent.named_children if a.type != "comment"]
        if len(arguments) == 2 and arguments[0] == node and _pair(finder, parent, arguments[1], start):
            return
        call = parent.parent
        if parent.type == "argument_list" and call is not None and re.search(r"is_(?:eq|same)|assert|CHECK_EQ|EXPECT_EQ",
                                                                             finder.source_of(call)[:60]):
            finder.add(BY_ID["cpp-device-comparison"], start, end, replacement)
            return
    finder.add(rule, start, end, replacement)


def _pair(finder, arguments, index, start: int) -> bool:
    """A device type with an index: `torch::Device(torch::kCUDA, 1)`, `torch::Device device(torch::kCUDA, 1)`,
    `{torch::kCUDA, 1}`, `.device(torch::kCUDA, 1)`."""
    rule = BY_ID["cpp-device"]
    text = matching.render(rule.to[finder.target], [finder.source_of(index)])
    owner = arguments.parent
    if arguments.type == "initializer_list" and owner.type == "argument_list":  # x.to({torch::kCUDA, 1})
        finder.add(rule, *finder.span(arguments), text)
        return True
    if owner.type == "call_expression":
        function = finder.source_of(owner.child_by_field_name("function"))
        if re.fullmatch(r"(?:(?:torch|at|c10)::)?Device", function):
            finder.add(rule, *finder.span(owner), text)
            return True
        if re.search(r"(?:\.|->|::)device$", function):
            first, last = finder.span(arguments)
            finder.add(rule, first + 1, last - 1, text)
            return True
    if owner.type == "init_declarator":
        kind = owner.parent.child_by_field_name("type")
        name = owner.child_by_field_name("declarator")
        if kind is not None and re.fullmatch(r"(?:(?:torch|at|c10)::)?Device", finder.source_of(kind)):
            last = finder.span(owner)[1]
            finder.add(rule,
                       finder.span(kind)[0],
                       last,
                       f"{finder.source_of(kind)} {finder.source_of(name)} = {text}",
                       edits=(Edit(finder.span(name)[1], last, " = " + text), ))
            return True
    return False


def device_string(finder, match: re.Match, start: int, end: int):
    """The literal "cuda" or "cuda:1"."""
    rule = BY_ID["cpp-device-string"]
    if any(f.start <= start < f.end for f in finder.source.findings):
        return
    node = finder.node(start, end)
    while node.type != "string_literal" and node.parent is not None:
        node = node.parent
    replacement = matching.render(rule.to[finder.target], [match[1] or ""])
    parent = node.parent
    if parent is not None and parent.type == "binary_expression":
        finder.add(BY_ID["cpp-device-comparison"], start, end, replacement)
        return
    known = False
    if parent is not None and parent.type in ("argument_list", "initializer_list"):
        owner = parent.parent
        if owner.type == "call_expression":
            known = bool(re.search(r"(?:^|\.|->|::)(?:Device|device|to)$", finder.source_of(owner.child_by_field_name("function"))))
        elif owner.type == "init_declarator" and owner.parent.child_by_field_name("type") is not None:
            known = finder.source_of(owner.parent.child_by_field_name("type")).split("::")[-1] == "Device"
    if parent is not None and parent.type == "init_declarator" and re.search(
            r"(?i)dev", finder.source_of(parent.child_by_field_name("declarator"))):
        known = finder.source_of(parent.parent.child_by_field_name("type")) in ("std::string", "string")
    torch = finder.target != ANYACCEL and match[1]
    finder.add(rule, start, end, None if torch else replacement, severity=None if known and not torch else REVIEW)
