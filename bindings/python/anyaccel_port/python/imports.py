"""Imports: those of torch.cuda and of libraries for CUDA, and those that a fix inserts or removes."""

from __future__ import annotations

import re

import libcst as cst

from .. import rules
from ..findings import Edit, Finding
from ..rules import libraries
from . import compose
from .calls import match
from .scopes import dotted
from .source import EQUIVALENT, FUNCTION, MODULES, REVIEW, Source

_LIBRARIES = {rule.id for rule in libraries.LIBRARIES}
IMPORT = "import"
# Modules that are compiled from CUDA sources, by the usual form of their names.
_EXTENSION = re.compile(r"\w+_cuda(?:_\w+)?$|_?cuda_ext\w*$")


def find_imports(source: Source, extensions: frozenset[str] = frozenset()) -> None:
    if extensions:
        _own_extensions(source, extensions)
    for node in [*source.names.nodes.get(cst.Import, ()), *source.names.nodes.get(cst.ImportFrom, ())]:
        found = _first(source, node)
        if found is None:
            continue
        rule, aliases = found
        span = source.tree.span(node)
        if rule.id in _LIBRARIES or rule.harmless or isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar):
            source.add(
                rule.id,
                span,
                node,
                severity=REVIEW if isinstance(getattr(node, "names", None), cst.ImportStar) and rule.id == "cuda-module" else "")
            continue
        if isinstance(node, cst.Import) and _plain(node):
            source.add(rule.id,
                       span,
                       node,
                       "import torch",
                       severity=EQUIVALENT,
                       message="torch.cuda is not used under this name any more.")
            continue
        removable = [(r, alias) for r, alias in aliases if _replaced(source, alias)]
        kept = [(r, alias) for r, alias in aliases if (r, alias) not in removable]
        if removable:
            finding = source.add(removable[0][0].id,
                                 span,
                                 node,
                                 severity=EQUIVALENT,
                                 message="Nothing uses the import after the fixes.")
            finding.edits = removal(source, node, [alias for _, alias in removable])
            finding.replacement = compose.apply(source.text[:span[1]], list(finding.edits))[span[0]:] if kept else ""
            finding.extra[IMPORT] = True
        if kept:
            severity = kept[0][0].severity_for(source.target)
            finding = source.add(kept[0][0].id, span, node, severity=REVIEW if severity == EQUIVALENT else severity)
            finding.extra[IMPORT] = True


def _own_extensions(source: Source, extensions: frozenset[str]) -> None:
    """Imports of the modules that the project's setup.py builds from CUDA sources."""
    for node in [*source.names.nodes.get(cst.Import, ()), *source.names.nodes.get(cst.ImportFrom, ())]:
        module = dotted(node.module) if isinstance(node, cst.ImportFrom) else ""
        relative = isinstance(node, cst.ImportFrom) and bool(node.relative)
        aliases = () if isinstance(node.names, cst.ImportStar) else node.names
        used = [module, *(f"{module}.{dotted(alias.name)}".strip(".") for alias in aliases)]
        own = any(name == used_ or relative and name.endswith("." + used_) for name in extensions for used_ in used if used_)
        if own and _first(source, node) is None:
            source.add("cuda-extension", source.tree.span(node), node)


def _plain(node: cst.Import) -> bool:
    return len(node.names) == 1 and node.names[0].asname is None


def _first(source: Source, node: cst.Import | cst.ImportFrom) -> tuple[rules.Rule, list[tuple[rules.Rule, cst.ImportAlias]]] | None:
    """The rule of the first name that has one, and all names that have one, with their rules."""
    if isinstance(node, cst.ImportFrom):
        if node.relative:
            return None
        module = dotted(node.module)
        if isinstance(node.names, cst.ImportStar):
            rule = rules.find(module) or rules.find(module + ".x")
            return (rule, []) if rule is not None else None
        pairs = [(f"{module}.{dotted(alias.name)}", alias) for alias in node.names]
    else:
        pairs = [(dotted(alias.name), alias) for alias in node.names]
    found = [(hit[0], alias) for name, alias in pairs if (hit := _match(name)) is not None]
    return (found[0][0], found) if found else None


def _match(name: str):
    if name.startswith("torch."):
        return match(name)
    if _EXTENSION.match(name):
        return rules.BY_ID["cuda-extension"], name
    rule = rules.find(name)
    return (rule, name) if rule is not None else None


def local_name(alias: cst.ImportAlias) -> str:
    return alias.asname.name.value if alias.asname is not None else dotted(alias.name).split(".")[0]


def _uses(source: Source, alias: cst.ImportAlias) -> list[cst.Name]:
    """The nodes that use an imported name."""
    name = local_name(alias)
    bindings = source.names.scope_of(alias).lookup(name)
    found = []
    for node in source.uses_of_name(name):
        parent = source.names.parent(node)
        if isinstance(parent, (cst.ImportAlias, cst.AsName)) or isinstance(parent, cst.Attribute) and parent.attr is node:
            continue
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            continue
        if source.names.scope_of(node).lookup(name) is bindings:
            found.append(node)
    return found


def _exported(source: Source, name: str) -> bool:
    if source.file.endswith("__init__.py"):
        return True
    return any(
        re.search(rf"[\"']{re.escape(name)}[\"']", source.tree.source(b.value))
        for b in source.names.scope.bindings.get("__all__", ()) if b.value is not None)


def _replaced(source: Source, alias: cst.ImportAlias) -> bool:
    edits = [e for f in source.findings if f.severity == EQUIVALENT for e in f.edits]
    return gone(source, alias, edits)


def gone(source: Source, alias: cst.ImportAlias, edits: list[Edit]) -> bool:
    """Whether the edits replace all uses of an imported name."""
    if _exported(source, local_name(alias)):
        return False
    for use in _uses(source, alias):
        start, end = source.tree.span(use)
        if not any(e.start <= start and end <= e.end for e in edits):
            return False
    return True


def removal(source: Source, node: cst.Import | cst.ImportFrom, aliases: list[cst.ImportAlias]) -> tuple[Edit, ...]:
    """The edits that remove names from an import, or the import itself."""
    tree, text = source.tree, source.text
    kept = [alias for alias in node.names if alias not in aliases]
    if kept:
        start = tree.span(node.names[0])[0]
        end = tree.span(node.names[-1])[1]
        return (Edit(start, end, ", ".join(tree.source(alias) for alias in kept)), )
    line = source.names.parent(node)
    block = source.names.parent(line)
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 and len(getattr(block, "body", ())) > 1:
        start, end = tree.span(node)
        start = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
        return (Edit(start, tree.outer(line)[1], ""), )
    start, end = tree.span(node)
    return (Edit(start, end, "pass"), )


def removals(source: Source, findings: list[Finding], edits: list[Edit]) -> list[Edit]:
    """The edits for the import findings that are fixed, given the other edits."""
    starts = {f.start for f in findings if f.extra.get(IMPORT)}
    found: list[Edit] = []
    for node in [*source.names.nodes.get(cst.Import, ()), *source.names.nodes.get(cst.ImportFrom, ())]:
        if source.tree.span(node)[0] in starts:
            hit = _first(source, node)
            aliases = [alias for _, alias in hit[1] if gone(source, alias, edits)] if hit is not None else []
            if aliases:
                found += removal(source, node, aliases)
    return found


def needed(source: Source, replaced: str) -> list[str]:
    """The import lines that the replaced texts need and that are missing."""
    lines = []
    module = MODULES.get(source.target)
    if module and re.search(rf"\b{re.escape(source.function)}\(\)", replaced) and not source.names.scope.lookup(source.function):
        name = FUNCTION if source.function == FUNCTION else f"{FUNCTION} as {source.function}"
        lines.append(f"from {module} import {name}")
    if re.search(r"(?<![\w.])torch\.", replaced) and not any(b.qualified == "torch" for b in source.names.scope.lookup("torch")):
        lines.insert(0, "import torch")
    return lines


def insertion(source: Source, lines: list[str], first_use: int) -> Edit:
    """The edit that inserts import lines before the first use."""
    if len(lines) == 1 and (merged := _merged(source, lines[0], first_use)) is not None:
        return merged
    newline = source.tree.module.default_newline
    body = source.tree.module.body
    place = 0
    leading = True
    after_torch = None
    for i, statement in enumerate(body):
        if source.tree.span(statement)[0] > first_use:
            break
        if not isinstance(statement, cst.SimpleStatementLine):
            if leading and after_torch is None and _guarded(source, statement, lines) is not None:
                return _guarded(source, statement, lines)
            leading = False
            continue
        end = source.tree.outer(statement)[1]
        if end > first_use:
            break
        small = statement.body[0]
        docstring = i == 0 and isinstance(small, cst.Expr) and isinstance(small.value, (cst.SimpleString, cst.ConcatenatedString))
        if docstring or isinstance(small, cst.ImportFrom) and isinstance(small.module,
                                                                         cst.Name) and small.module.value == "__future__":
            place = end
        elif isinstance(small, (cst.Import, cst.ImportFrom)):
            if leading:
                place = end
            if any(_imports_torch(s)
                   for s in statement.body) and (after_torch is None or source.tree.span(statement)[0] == after_torch):
                after_torch = end
        else:
            leading = False
    if after_torch is not None:
        place = after_torch
    text = newline.join(lines) + newline
    if place and not source.text[:place].endswith(("\n", "\r")):
        text = newline + text
    if place == 0 and body:
        place = source.text.rfind("\n", 0, source.tree.span(body[0])[0]) + 1
        if place == 0 and source.text.startswith("\ufeff"):
            place = 1
    return Edit(place, place, text)


def _merged(source: Source, line: str, first_use: int) -> Edit | None:
    """The edit that adds the name to an import of the same module, if there is one at the top of the source."""
    module, _, name = line.partition(" import ")
    for statement in source.tree.module.body:
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if isinstance(small, cst.ImportFrom) and not isinstance(
                small.names, cst.ImportStar) and not small.relative and f"from {dotted(small.module)}" == module:
            end = source.tree.span(small.names[-1])[1] if small.names[-1].asname else source.tree.outer(small.names[-1].name)[1]
            if end < first_use:
                return Edit(end, end, f", {name}")
    return None


def _guarded(source: Source, statement: cst.CSTNode, lines: list[str]) -> Edit | None:
    """The edit that inserts the lines after `import torch` in a `try` block at the top of the source."""
    if not isinstance(statement, cst.Try) or not isinstance(statement.body, cst.IndentedBlock):
        return None
    for line in statement.body.body:
        if isinstance(line, cst.SimpleStatementLine) and any(_imports_torch(s) for s in line.body):
            start, end = source.tree.span(line)[0], source.tree.outer(line)[1]
            indent = source.text[source.text.rfind("\n", 0, start) + 1:start]
            newline = source.tree.module.default_newline
            return Edit(end, end, "".join(indent + text + newline for text in lines))
    return None


def _imports_torch(small: cst.CSTNode) -> bool:
    if isinstance(small, cst.Import):
        return any(dotted(alias.name).split(".")[0] == "torch" for alias in small.names)
    return isinstance(small, cst.ImportFrom) and not small.relative and dotted(small.module).split(".")[0] == "torch"
