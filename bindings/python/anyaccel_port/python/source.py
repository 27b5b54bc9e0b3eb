"""The source under analysis, the names that replacements use in it, and the findings so far."""

from __future__ import annotations

import os
import re

import libcst as cst

from .. import rules
from ..findings import EQUIVALENT, NONE, REVIEW, Finding, Lines
from ..rules import ANYACCEL, DEEPSPEED, TORCH, Rule
from . import compose
from .scopes import Binding, Names, Scope
from .tree import Tree

MODULES = {ANYACCEL: "anyaccel", DEEPSPEED: "deepspeed.accelerator"}
FUNCTION = "get_accelerator"


class Source:

    def __init__(self, text: str, file: str, target: str):
        self.text, self.file, self.target = text, file, target
        self.tree = Tree(text)
        self.names = Names(self.tree.module)
        self.lines = Lines(text)
        self.findings: list[Finding] = []
        self.done: set[int] = set()  # nodes inside of an existing finding
        self.default_type = False  # whether the source calls torch.set_default_tensor_type() with a CUDA type
        self.bound = _bound(self.names)
        self.build = bool(re.match(r"setup(?:_\w+)?\.py$", os.path.basename(file)))
        self.function = self._function_name()
        self._options: dict[str, bool] | None = None
        self._uses: dict[str, list[cst.Name]] | None = None

    def _function_name(self) -> str:
        """The name of get_accelerator in this source, imported or to be imported."""
        module = MODULES.get(self.target)
        if module is None:
            return ""
        qualified = f"{module}.{FUNCTION}"
        for name, bindings in self.names.scope.bindings.items():
            if all(b.kind == "import" and b.qualified == qualified for b in bindings):
                return name
        name = FUNCTION
        while any(b.qualified != qualified for b in self.bound.get(name, ())):
            name = f"get_{module.split('.')[0]}_accelerator" if name == FUNCTION else name + "_"
        return name

    def torch(self, scope: Scope) -> str:
        """The name of torch in a scope. The fix imports torch if it is missing."""
        bindings = scope.lookup("torch")
        if not bindings or all(b.kind == "import" and b.qualified == "torch" for b in bindings):
            if bindings or not self._torch_alias():
                return "torch"
        return self._torch_alias() or "torch"

    def _torch_alias(self) -> str:
        for name, bindings in self.names.scope.bindings.items():
            if name != "torch" and all(b.kind == "import" and b.qualified == "torch" for b in bindings):
                return name
        return ""

    def values(self, scope: Scope, quote: str = '"') -> dict[str, str]:
        """The texts for the placeholders of templates that do not depend on the place. `quote` encloses their strings."""
        torch = self.torch(scope)
        if self.target == TORCH:
            # current_accelerator() returns None on a machine with only a CPU.
            device = f"{torch}.accelerator.current_accelerator(check_available=True) or {torch}.device({quote}cpu{quote})"
            return {"acc": f"{torch}.accelerator", "type": f"({device}).type"}
        return {"acc": f"{self.function}()", "type": f"{self.function}().device_name()"}

    def text_options(self) -> dict[str, bool]:
        """The options that this source adds to an argparse parser, and whether their values are strings."""
        if self._options is None:
            self._options = {}
            for call in self.names.nodes.get(cst.Call, ()):
                if isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_argument":
                    keywords = {a.keyword.value: a.value for a in call.args if a.keyword is not None}
                    names = [a.value.raw_value for a in call.args if a.keyword is None and isinstance(a.value, cst.SimpleString)]
                    kind = keywords.get("type")
                    is_text = isinstance(
                        kind, cst.Name) and kind.value == "str" or kind is None and not {"action", "nargs"} & keywords.keys()
                    for name in names:
                        self._options[name.lstrip("-").replace("-", "_")] = is_text
        return self._options

    def uses_of_name(self, name: str) -> list[cst.Name]:
        """All nodes with this name, in all scopes."""
        if self._uses is None:
            self._uses = {}
            for node in self.names.nodes.get(cst.Name, ()):
                self._uses.setdefault(node.value, []).append(node)
        return self._uses.get(name, [])

    def add(self,
            rule_id: str,
            span: tuple[int, int],
            node: cst.CSTNode,
            template: str | None = None,
            pieces: dict[str, tuple[int, int]] | None = None,
            severity: str = "",
            message: str = "",
            values: dict[str, str] | None = None) -> Finding:
        """Adds a finding at `span`. `template` replaces the span; without it, the finding has no replacement."""
        rule = rules.BY_ID[rule_id]
        scope = self.names.scope_of(node)
        edits = ()
        replacement = None
        if template is not None:
            torch = self.torch(scope)
            if torch != "torch":
                template = template.replace("torch.", torch + ".")
            outer = self._outer_quote(node)
            if outer:
                template = template.replace(outer, _other(outer))
            inner = re.match(r"f(['\"])", template)
            fixed = self.values(scope, _other(inner[1] if inner else outer or "'"))
            edits = compose.edits(self.text, span, template, {**fixed, **(values or {})}, pieces or {})
            replacement = compose.apply(self.text[:span[1]], list(edits))[span[0]:]
        severity = severity or rule.severity_for(self.target)
        line, column = self.lines.position(span[0])
        finding = Finding(rule.id, severity, self.file, span[0], span[1], line, column, self.text[span[0]:span[1]], message
                          or rule.why, replacement, edits)
        if rule.harmless:
            finding.extra["harmless"] = True
        self.findings.append(finding)
        return finding

    def _outer_quote(self, node: cst.CSTNode) -> str:
        """The quote of the f-string around the node, or "". Before Python 3.12, an f-string cannot contain its own quotes."""
        parent = self.names.parent(node)
        while parent is not None and not isinstance(parent, cst.BaseSmallStatement):
            if isinstance(parent, cst.FormattedString):
                return parent.start[-1]
            parent = self.names.parent(parent)
        return ""

    def finish(self) -> list[Finding]:
        """The findings in the order of the source. Their text and replacement include all their edits."""
        for finding in self.findings if self.build else ():
            if finding.severity == EQUIVALENT:
                finding.severity = REVIEW
                finding.message += " In a build script, it may decide whether sources for CUDA are built."
        for finding in self.findings:
            edits = finding.edits
            if edits and not finding.extra:
                start, end = min(finding.start, *(e.start for e in edits)), max(finding.end, *(e.end for e in edits))
                if start != finding.start:
                    finding.line, finding.column = self.lines.position(start)
                finding.start, finding.end, finding.text = start, end, self.text[start:end]
                finding.replacement = compose.apply(self.text[:end], list(edits))[start:]
        return sorted(self.findings, key=lambda f: (f.start, -f.end))

    def template(self, rule: Rule) -> str | None:
        return rule.to.get(self.target)


def _other(quote: str) -> str:
    return "'" if quote == '"' else '"'


def _bound(names: Names) -> dict[str, list[Binding]]:
    """The bindings of each name in all scopes."""
    found: dict[str, list[Binding]] = {}
    for scope in names.all_scopes:
        for name, bindings in scope.bindings.items():
            found.setdefault(name, []).extend(bindings)
    return found


__all__ = ["EQUIVALENT", "FUNCTION", "MODULES", "NONE", "REVIEW", "Source"]
