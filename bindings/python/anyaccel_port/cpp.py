"""Finds CUDA dependencies in C++ and CUDA sources.

The finder looks for names in the text without comments and literals. The syntax tree (tree-sitter)
shows what surrounds a name: the call, its arguments, and whether the result is used.
"""

from __future__ import annotations

import re

import tree_sitter
import tree_sitter_cuda

from . import cpp_declarations as declarations
from . import cpp_includes as includes
from . import cpp_patterns as patterns
from . import matching
from .cpp_names import Names
from .cpp_text import Blanked
from .findings import EQUIVALENT, REVIEW, Edit, Finding
from .rules import BY_ID, BY_NAME, Rule, native

_LANGUAGE = tree_sitter.Language(tree_sitter_cuda.language())
_KERNEL_FILE = (
    "This file contains CUDA kernels or their launches, so it is built for CUDA only. Keep it for CUDA, and write "
    "the op for other accelerators. "
)


class _Finder:
    """Collects the findings in one file."""

    def __init__(self, text: str, file: str, target: str):
        self.source = matching.Source(text, file, target)
        self.text = text
        self.target = target
        self.blanked = Blanked(text)
        self.blanked.check()
        self.code = self.blanked.code
        self.offsets = matching.Offsets(text)
        self.root = tree_sitter.Parser(_LANGUAGE).parse(text.encode("utf-8", "surrogatepass")).root_node
        self.names = Names(self.code)
        self.kernels = bool(re.search(r"\b__global__\b|<<<|\b__device__\b", self.code)) or file.endswith((".cu", ".cuh"))
        self.done = -1  # everything before this offset belongs to a finding
        self.device_code: set[tuple[int, int]] = set()  # functions with a finding for built-in names
        self.includes: list[tuple[int, int]] = []

    # Nodes

    def node(self, start: int, end: int):
        return self.root.descendant_for_byte_range(self.offsets.to_byte(start), self.offsets.to_byte(end))

    def span(self, node) -> tuple[int, int]:
        return self.offsets.to_character(node.start_byte), self.offsets.to_character(node.end_byte)

    def source_of(self, node) -> str:
        return self.text[slice(*self.span(node))]

    def name_node(self, start: int, end: int):
        """The node of a whole qualified name."""
        node = self.node(start, end)
        while node.parent is not None and node.parent.type == "qualified_identifier" and self.span(node.parent)[0] <= start:
            node = node.parent
        return node

    def call_of(self, node):
        """The call whose function is `node`."""
        parent = node.parent
        return parent if parent is not None and parent.type == "call_expression" and parent.child_by_field_name(
            "function") == node else None

    def arguments(self, call) -> list[str]:
        arguments = call.child_by_field_name("arguments")
        return [self.source_of(a) for a in arguments.named_children if a.type != "comment"] if arguments is not None else []

    def statement(self, call):
        """Return the statement that consists of `call` alone, possibly in a macro that checks errors, and
        the outermost call; (None, call) if the result is used."""
        node = call
        while node.parent is not None and node.parent.type == "argument_list" and node.parent.parent is not None and \
                node.parent.parent.type == "call_expression" and len(node.parent.named_children) == 1:
            outer = node.parent.parent
            if not patterns.CHECK.fullmatch(self.source_of(outer.child_by_field_name("function"))):
                break
            node = outer
        parent = node.parent
        return (parent, node) if parent is not None and parent.type == "expression_statement" else (None, node)

    def function(self, offset: int) -> tuple[int, int]:
        """The span of the outermost block around a place, outside of classes and namespaces."""
        node, found = self.node(offset, offset + 1), None
        while node is not None:
            if node.type == "compound_statement":
                found = node
            node = node.parent
        return self.span(found) if found is not None else (0, len(self.text))

    # Findings

    def add(self, rule: Rule, start: int, end: int, replacement: str | None = None, **options) -> Finding:
        """Add a finding. In CUDA sources, replacements are shown but not applied."""
        severity = options.pop("severity", None) or (rule.severity_for(self.target) if rule.to else rule.severity)
        message = None
        if severity == EQUIVALENT and self.kernels:
            severity, message, options["edits"] = REVIEW, _KERNEL_FILE + rule.why, ()
        elif self.kernels and replacement is not None:
            options["edits"] = ()
        self.done = max(self.done, end)
        return self.source.add(rule, start, end, severity=severity, replacement=replacement, message=message, **options)

    def run(self) -> list[Finding]:
        self.done = 0
        for match in self.candidates():
            if match.start() < self.done:
                continue
            kind = match.lastgroup if match.lastgroup != "header" else "include"
            if kind not in ("include", "condition") and self.macro(match):
                continue
            getattr(self, "on_" + kind)(match, match.start(), match.end())
        self.strings()
        self.settle_handles()
        self.settle_includes()
        return self.source.result()

    def candidates(self):
        """The matches of the names. Only lines that can contain one are searched."""
        at = 0
        for line in self.code.splitlines(keepends=True):
            start, at = at, at + len(line)
            lowered = line.lower()
            if at > self.done and any(key in lowered for key in patterns.KEYS):
                yield from patterns.CANDIDATE.finditer(self.code, start, at)

    def of_object(self, start: int) -> bool:
        """Whether the name that begins at `start` is a member of an object."""
        return self.code[max(0, start - 80):start].rstrip().endswith((".", "->"))

    def macro(self, match: re.Match) -> bool:
        """Whether the match is in a macro's definition, which then becomes one finding."""
        start = self.code.rfind("\n", 0, match.start()) + 1
        while start > 1 and self.code.endswith(("\\", "\\\r"), max(0, start - 3), start - 1):
            start = self.code.rfind("\n", 0, start - 1) + 1
        if not re.match(r"[ \t]*#", self.code[start:match.start()]):
            return False
        if not re.match(r"[ \t]*#[ \t]*define\b", self.code[start:match.start()]):
            return True
        end = match.end()
        while (end := self.code.find("\n", end)) != -1 and self.code.endswith(("\\", "\\\r"), end - 2, end):
            end += 1
        end = len(self.code) if end == -1 else end
        self.add(BY_ID["cpp-macro"], start, start + len(self.code[start:end].rstrip()))
        return True

    def on_include(self, match, start, end):
        header = match["header"] or self.text[start:end].split('"')[1]
        start += len(match[0]) - len(match[0].lstrip())
        if patterns.TORCH_HEADER.match(header):
            self.includes.append((start, end))
            self.done = end
        elif patterns.CUDA_HEADER.fullmatch(header) and (match["header"] or not header.startswith("cuda/")):
            self.add(BY_ID["cpp-include-cuda"], start, end)

    def on_condition(self, match, start, end):
        if patterns.CONDITION.search(match[0]):
            start += len(match[0]) - len(match[0].lstrip())
            self.add(BY_ID["cpp-condition"], start, start + len(match[0].strip()))

    def on_using(self, match, start, end):
        self.add(BY_ID["cpp-using"], start, end)

    def on_kernel(self, match, start, end):
        rule = BY_ID["cpp-kernel"]
        stop = self.blanked.definition(start)
        self.add(rule, start, self.header(start, end, stop))
        self.done = max(self.done, stop)

    def on_device(self, match, start, end):
        first = start
        before = re.compile(r"(?:__host__|__forceinline__|__noinline__|static|inline|constexpr|extern)\s*$")
        while previous := before.search(self.code, max(0, first - 40), first):
            first = previous.start()
        stop = self.blanked.definition(start)
        self.add(BY_ID["cpp-device-function"], first, self.header(first, end, stop))
        self.done = max(self.done, stop)

    def header(self, start: int, keyword: int, stop: int) -> int:
        """The end of a declaration without its body."""
        bodies = [at for mark in "{;" if (at := self.code.find(mark, keyword, stop)) != -1]
        end = min(bodies, default=stop)
        return start + len(self.code[start:end].rstrip())

    def on_launch(self, match, start, end):
        close = self.code.find(">>>", end)
        if close == -1 or ";" in self.code[end:close] and "[" not in self.code[end:close]:
            return
        close += 3
        at = self.blanked.skip(close)
        if at >= len(self.code) or self.code[at] != "(":
            return
        stop = self.blanked.closing(at) or close
        name = re.search(r"[\w:]+\s*(?:<[^;{}<>]*(?:<[^<>]*>[^;{}<>]*)*>)?\s*$", self.code[max(0, start - 300):start])
        first = start - len(name[0]) if name else start
        self.add(BY_ID["cpp-kernel-launch"], first, stop)

    def on_size(self, match, start, end):
        if "dim3" not in self.names.defined:
            self.add(BY_ID["cpp-launch-size"], start, end)

    def on_intrinsic(self, match, start, end):
        """One finding per function: device functions can be declared by macros, such as CUTLASS_DEVICE."""
        function = self.function(start)
        if function not in self.device_code:
            self.device_code.add(function)
            self.add(BY_ID["cpp-intrinsic"], start, end)

    def on_version(self, match, start, end):
        self.add(BY_ID["cpp-cuda-version"], start, end)

    def on_method(self, match, start, end):
        node = self.node(start, start + 1)
        field = node if node.type == "field_expression" else node.parent
        if field is None or field.type != "field_expression":
            self.add(BY_ID["cpp-is-cuda" if "is_" in match[0] else "cpp-tensor-cuda"], start, end, severity=REVIEW)
            return
        self_ = self.source_of(field.child_by_field_name("argument"))
        first = self.span(field)[0]
        arrow = match[0].startswith("->")
        if "is_" in match[0]:
            rule = BY_ID["cpp-is-cuda"]
            object_ = f"*{self_}" if arrow else self_
            if re.search(r"(?:\.|->)(?:type|options)\(\)$", self_):
                replacement = None
            elif re.search(r"(?:\.device\(\)|\bdevice_?)$", self_):
                type_ = matching.render(BY_ID["cpp-device-type"].to[self.target], [])
                replacement = None if arrow else f"({self_}.type() == {type_})"
            else:
                replacement = matching.render(rule.to[self.target], [], self_=object_)
            self.add(rule, first, end, replacement)
        else:
            rule = BY_ID["cpp-tensor-cuda"]
            replacement = matching.render(rule.to[self.target], [], self_=self_)
            if arrow:
                replacement = self_ + "->" + replacement[len(self_) + 1:]
            self.add(rule, first, end, replacement, edits=(Edit(start, end, replacement[len(self_):]), ))

    def on_dispatch(self, match, start, end):
        if match[0].startswith("TORCH_LIBRARY_IMPL"):
            close = self.blanked.closing(end - 1)
            if close is None or not re.search(r",\s*\w*CUDA\s*,", self.code[start:close]):
                return
            end = close
        self.add(BY_ID["cpp-dispatch-key"], start, end)

    def on_legacy(self, match, start, end):
        self.add(BY_ID["cpp-library-handle" if "Handle" in match[0] else "cpp-cuda-other"], start, end)

    def on_macro(self, match, start, end):
        node = self.node(start, end)
        call = self.call_of(node)
        inner = None
        if call is not None:
            inner = patterns.CANDIDATE.search(self.code, end, self.span(call)[1])
        if inner is not None and inner.lastgroup in ("runtime", "library", "driver", "nccl", "qualified"):
            return  # the call inside is reported
        rule = BY_NAME.get("c++:" + match[0], BY_ID["cpp-check-macro"] if "CHECK" in match[0] else BY_ID["cpp-cuda-other"])
        self.add(rule, start, self.span(call)[1] if call is not None else end)

    def on_qualified(self, match, start, end):
        start += len(match[0]) - len(match[0].lstrip(": \n"))
        self.member(self.names.resolve(self.code[start:end]), start, end)

    def on_bare(self, match, start, end):
        if match[0].split("::")[0] in self.names.defined or self.of_object(start):
            return
        name = "detail::" + match[0] if match[0] == "getDefaultCUDAGenerator" else match[0]
        if "CUDA" not in match[0] and not self.names.opened:
            return
        self.member("at::cuda::" + name, start, end)

    def member(self, name: str | None, start: int, end: int):
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
        node = self.name_node(start, end)
        if node.parent is not None and node.parent.type == "using_declaration":
            self.add(BY_ID["cpp-using"], *self.span(node.parent))
            return
        if rule.id == "cpp-device-type":
            declarations.device_type(self, node, start, end)
        elif rule.id in declarations.DECLARED:
            declarations.declared(self, rule, node, start, end)
        else:
            self.call(rule, node, start, end)

    def call(self, rule: Rule, node, start: int, end: int):
        call = self.call_of(node)
        if call is None:
            self.add(rule, start, end, None, severity=REVIEW if rule.severity == EQUIVALENT else None)
            return
        template = rule.to.get(self.target)
        arguments = self.arguments(call)
        first, last = start, self.span(call)[1]
        if rule.id == "cpp-is-available" and declarations.choice(self, call):
            return
        if template is None:
            self.add(rule, first, last)
            return
        replacement = matching.render(template, arguments)
        if rule.id in native.STATEMENTS:
            statement, outer = self.statement(call)
            if statement is None:
                self.add(rule,
                         first,
                         last,
                         replacement,
                         severity=REVIEW if rule.severity_for(self.target) == EQUIVALENT else None,
                         edits=())
            else:
                self.add(rule, self.span(outer)[0], self.span(outer)[1], replacement)
            return
        severity = None
        if rule.id in ("cpp-current-stream", "cpp-default-stream", "cpp-new-stream", "cpp-default-generator"):
            severity = declarations.uses(self, rule, call, arguments)
        elif rule.id == "cpp-set-stream" and not (len(arguments) == 1 and declarations.is_stream(self, arguments[0], call)):
            severity = REVIEW
        edits = None
        if len(arguments) and "{args}" in template and template.endswith("({args})"):
            edits = (Edit(start, end, template[:-len("({args})")]), )
        self.add(rule, first, last, replacement, severity=severity, edits=() if severity == REVIEW else edits)

    def on_runtime(self, match, start, end):
        if match[0] in self.names.defined or self.of_object(start):
            return
        rule = self.prefix_rule(match[0])
        node = self.node(start, end)
        call = self.call_of(node)
        if call is None and node.parent is not None and node.parent.type == "template_function":
            call = self.call_of(node.parent)
        if call is not None and rule.to:
            self.call(rule, node, start, end)
        else:
            self.simple(rule, call, start, end)

    def simple(self, rule: Rule, call, start: int, end: int):
        """A name or a call that has no replacement. Its arguments belong to it."""
        if call is None:
            self.add(rule, start, end)
            return
        _, outer = self.statement(call)
        self.add(rule, *self.span(outer if self.span(outer)[0] >= self.done else call))

    def prefix_rule(self, name: str) -> Rule:
        if rule := BY_NAME.get("c++:" + name):
            return rule
        for length in range(len(name), 1, -1):
            if rule := BY_NAME.get(f"c++:{name[:length]}*"):
                return rule
        return BY_ID["cpp-runtime-other"]

    def on_group(self, rule_id: str, start: int, end: int):
        name = self.code[start:end]
        if name in self.names.defined:
            return
        rule = BY_NAME.get("c++:" + name, BY_ID[rule_id])
        node = self.node(start, end)
        call = self.call_of(node)
        if call is not None and rule.to:
            self.call(rule, node, start, end)
        else:
            self.simple(rule, call, start, end)

    def on_driver(self, match, start, end):
        self.on_group("cpp-driver", start, end)

    def on_old(self, match, start, end):
        if "Check" in match[0] and (inner := self.code.find("cuda", end,
                                                            end + 20)) != -1 and not self.code[end:inner].strip(" (\n"):
            return  # the call inside is reported
        self.on_group("cpp-thc", start, end)

    def on_nccl(self, match, start, end):
        self.on_group("cpp-nccl", start, end)

    def on_library(self, match, start, end):
        self.on_group("cpp-library", start, end)

    def strings(self):
        """Device names in string literals."""
        taken = [(f.start, f.end) for f in self.source.findings if f.rule == "cpp-macro"]
        for start, end in self.blanked.strings:
            match = re.fullmatch(r'"cuda(?::(\d+))?"', self.text[start:end])
            if match is None or any(a <= start < b for a, b in taken):
                continue
            declarations.device_string(self, match, start, end)

    def settle_handles(self):
        """Streams and events are replaced throughout a function or not at all, because the old and the
        new types do not mix."""
        handles = [f for f in self.source.findings if f.rule in _HANDLES]
        left = {self.function(f.start) for f in handles if f.severity != EQUIVALENT}
        for finding in handles:
            if finding.severity == EQUIVALENT and self.function(finding.start) in left:
                finding.severity, finding.edits = REVIEW, ()
                finding.message += " Something else in this function needs CUDA's type."

    def settle_includes(self):
        """torch's headers are replaced if all code that needs them is replaced. A header that this file
        does not need stays, because other files may need it."""
        rule = BY_ID["cpp-include"]
        users = [f for f in self.source.findings if _needs_header(f)]
        replaced = bool(users) and all(f.severity == EQUIVALENT and f.edits for f in users)
        for start, end in self.includes:
            if replaced and not self.kernels:
                self.source.add(rule, start, end, replacement=rule.to[self.target])
            else:
                self.source.add(rule, start, end, severity=REVIEW, replacement=rule.to[self.target], edits=())


_HANDLES = frozenset(
    ("cpp-current-stream", "cpp-default-stream", "cpp-new-stream", "cpp-set-stream", "cpp-stream-type", "cpp-stream-guard",
     "cpp-event", "cpp-runtime-stream", "cpp-runtime-event", "cpp-external-stream", "cpp-graph"))
_NEED_NO_HEADER = frozenset(
    ("cpp-is-cuda", "cpp-dispatch-key", "cpp-device-comparison", "cpp-device-string", "cpp-tensor-cuda", "cpp-device-type"))


def _needs_header(finding: Finding) -> bool:
    return not finding.rule.startswith(("cpp-include", "cpp-condition")) and finding.rule not in _NEED_NO_HEADER


def find(text: str, file: str, target: str) -> list[Finding]:
    """Return the findings in a C++ or CUDA source. Raises SourceError for unclosed comments or brackets."""
    return _Finder(text, file, target).run()


def fix(text: str, findings: list[Finding], target: str) -> str:
    """Apply the findings' edits, and replace includes that are no longer needed."""
    others = [e for f in findings if f.rule != "cpp-include" for e in f.edits]
    wanted = {f.text for f in findings if f.rule == "cpp-include" and f.edits}
    fixed = matching.apply(text, others)
    needed = list(dict.fromkeys(line for name, line in includes.INCLUDES.items() if any(name in e.text for e in others)))
    eol = "\r\n" if "\r\n" in text else "\n"
    needed = [line for line in needed if not re.search(rf"^[ \t]*{re.escape(line)}", fixed, re.M)]
    # The findings in the fixed text show whether something still needs the old headers.
    left = find(fixed, findings[0].file if findings else "", target)
    edits = []
    if not any(_needs_header(f) for f in left):
        for include in left:
            if include.rule == "cpp-include" and include.text in wanted:
                edits.append(
                    Edit(include.start, include.end, eol.join(needed)) if needed else includes.without_line(fixed, include))
                needed = []
    if needed:
        at = includes.insertion(fixed)
        edits.append(Edit(at, at, eol.join(needed) + eol))
    return matching.apply(fixed, edits)
