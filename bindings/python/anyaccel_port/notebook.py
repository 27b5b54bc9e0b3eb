"""Finds and fixes CUDA dependencies in Jupyter notebooks.

The code cells are joined into one program, so that an import in one cell counts in the next ones.
Magic commands and shell commands of IPython are masked. Only the strings of changed source lines
are rewritten in the file's JSON text.
"""

from __future__ import annotations

import difflib
import json
import re

from . import matching, shell
from .findings import Edit, Finding, Lines, SourceError
from .notebook_text import Cell, cells

_MARK = "# anyaccel-port: end of cell\n"
_CELL_MAGIC = re.compile(r"\s*%%(\w+)([^\n]*)")
_PYTHON_MAGICS = frozenset(
    ("time", "timeit", "capture", "prun", "python", "python3", "py", "memit", "mprun", "lprun", "heat", "debug"))
_SHELL_MAGICS = frozenset(("bash", "sh", "shell", "script", "system", "sx"))
# A magic whose argument is Python: `%time f()`.
_LINE_MAGIC = re.compile(r"%(?:time|timeit|prun|memit|debug)[ \t]+(?!-)")
# Commands that IPython accepts without a percent sign: `cd folder`.
_AUTOMATIC = (r"(?:cd|ls|ll|cat|cp|mv|rm|rmdir|mkdir|pwd|pip3?|conda|less|more|man)"
              r"(?:[ \t]+(?!(?:in|is|if|and|or|not|for|else)\b)(?:-{1,2}[A-Za-z]|[\w~/$]|\.{1,2}(?:/|$))[^=\n(]*)$")
_MASKED = re.compile(r"(?m)^(?P<indent>[ \t]*)(?P<code>(?:[\w, \[\]\"']+=[ \t]*)?)"
                     r"(?P<magic>[%!](?:[^\n\\]|\\.|\\\n)*|\?{1,2}[\w.*]+[ \t]*$|(?:[\w.]+)\?{1,2}[ \t]*$|" + _AUTOMATIC + ")")


class _Program:
    """The joined cells. `starts`: the offset of each cell in the program."""

    def __init__(self, text: str):
        self.text = text
        self.cells = cells(text)
        self.starts: list[int] = []
        self.commands: list[tuple[Cell, int, int]] = []  # spans of shell commands in cells
        parts, at = [], 0
        for cell in self.cells:
            masked = self.mask(cell)
            self.starts.append(at)
            parts.append(masked + "\n" + _MARK)
            at += len(parts[-1])
        self.code = "".join(parts)

    def mask(self, cell: Cell) -> str:
        """The cell's Python code, as long as the cell."""
        source = cell.source
        if match := _CELL_MAGIC.match(source):
            name = match[1]
            if name in _SHELL_MAGICS:
                self.commands.append((cell, match.end(), len(source)))
            python = name in _PYTHON_MAGICS or name == "writefile" and match[2].strip().endswith(".py")
            if not python:
                return re.sub(r"[^\n]", "#", source)
            source = " " * match.start(1) + re.sub(r"[^\n]", "#", source[match.start(1):match.end()]) + source[match.end():]
            source = re.sub(r"[^\n]", "#", source[:match.end()]) + source[match.end():]
        if re.search("[%!?]|(?m:^" + _AUTOMATIC + ")", source):
            source = _MASKED.sub(lambda m: self._mask_line(cell, m, source), source)
        return source

    def _mask_line(self, cell: Cell, match: re.Match, source: str) -> str:
        magic = match["magic"]
        # A continuation of an expression can start with % too.
        before = re.sub(r"#.*", "", source[:match.start()]).rstrip()
        if magic[0] == "%" and (before.endswith(
            ("(", ",", "\\", "+", "[")) or _unclosed(before)) or magic[0] == "!" and magic[1:2] == "=":
            return match[0]
        if magic[0] == "!" or re.match(r"%?(?:pip|conda)\b", magic):
            self.commands.append((cell, match.start("magic") + (magic[0] in "!%"), match.end("magic")))
        head = match["indent"] + match["code"]
        if python := _LINE_MAGIC.match(magic):
            return head + "0;" + " " * (len(python[0]) - 2) + magic[len(python[0]):]
        lines = magic.split("\n")
        first = "0" + "#" * (len(lines[0]) - 1)
        return "\n".join([head + first, *("#" * len(line) for line in lines[1:])])

    def place(self, offset: int) -> tuple[Cell, int] | None:
        """The cell and the offset in its source of a place in the program."""
        import bisect
        index = bisect.bisect_right(self.starts, offset) - 1
        inside = offset - self.starts[index]
        cell = self.cells[index]
        return (cell, inside) if inside <= len(cell.source) else None


def _unclosed(code: str) -> bool:
    code = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", "", code[-2000:])
    return sum(code.count(c) for c in "([{") > sum(code.count(c) for c in ")]}")


def code_of(text: str) -> str:
    """The Python code of a notebook, without magic commands. Raises SourceError if the text is not a notebook."""
    return _Program(text).code


def find(text: str, file: str, target: str) -> list[Finding]:
    """Return the findings in a notebook's code cells. Raises SourceError for a broken notebook or cell."""
    program = _Program(text)
    return [finding for finding, _ in _find(program, file, target)]


def _find(program: _Program, file: str, target: str) -> list[tuple[Finding, Finding | None]]:
    """Pairs of a finding in the notebook and the finding in the joined program that it comes from."""
    found: list[tuple[Finding, Finding | None]] = []
    for inner in _python(program, file, target):
        place = program.place(inner.start)
        if place is not None:
            cell, start = place
            end = min(start + inner.end - inner.start, len(cell.source))
            found.append((_moved(program, inner, cell, start, end, file), inner))
    for cell, start, end in program.commands:
        source = matching.Source(cell.source, file, target)
        shell.scan(source, start, end)
        found += [(_moved(program, inner, cell, inner.start, inner.end, file), None) for inner in source.findings]
    return sorted(found, key=lambda pair: pair[0].start)


def _python(program: _Program, file: str, target: str) -> list[Finding]:
    from . import python
    if not program.code.strip():
        return []
    try:
        return python.find(program.code, file, target)
    except SourceError as error:
        for cell, start in zip(program.cells, program.starts):
            try:
                python.find(program.code[start:start + len(cell.source)].rstrip() + "\n", file, target)
            except SourceError as inner:
                raise SourceError(f"cell {cell.number}: {inner.message}", inner.line) from None
        raise SourceError(error.message, 0) from None


def _moved(program: _Program, inner: Finding, cell: Cell, start: int, end: int, file: str) -> Finding:
    """A finding in the joined program, with its offsets mapped to the file."""
    line, column = Lines(cell.source).position(start)
    edits = []
    for edit in inner.edits:
        a = edit.start - inner.start + start
        b = edit.end - inner.start + start
        if 0 <= a <= b <= len(cell.source):
            edits.append(Edit(cell.places[a], cell.places[b], json.dumps(edit.text)[1:-1]))
        else:  # an import in another cell; fix() inserts it
            edits.append(Edit(cell.places[start], cell.places[start], ""))
    return Finding(inner.rule,
                   inner.severity,
                   file,
                   cell.places[start],
                   cell.places[end],
                   line,
                   column,
                   inner.text,
                   inner.message,
                   inner.replacement,
                   tuple(edits),
                   cell=cell.number,
                   extra=inner.extra)


def fix(text: str, findings: list[Finding], target: str) -> str:
    """Apply the findings' edits to the source lines that they change."""
    from . import python
    program = _Program(text)
    wanted = {(f.rule, f.start, f.end) for f in findings}
    chosen = [
        pair for pair in _find(program, findings[0].file if findings else "", target)
        if (pair[0].rule, pair[0].start, pair[0].end) in wanted
    ]
    edits = [edit for finding, inner in chosen if inner is None for edit in finding.edits]  # edits in shell commands
    fixed = python.fix(program.code, [inner for _, inner in chosen if inner is not None], target).split(_MARK)
    before = program.code.split(_MARK)
    if len(fixed) != len(before):
        raise SourceError("the fixed notebook has another number of cells", 0)
    for cell, old, new in zip(program.cells, before, fixed):
        if old != new:
            edits += _rewrite(text, cell, old[:-1], new[:-1] if new.endswith("\n") else new)
    return matching.apply(text, edits)


def _rewrite(text: str, cell: Cell, old: str, new: str) -> list[Edit]:
    """The edits of the file that change a cell's masked source from `old` to `new`."""
    old_lines, new_lines, source_lines = _split(old), _split(new), _split(cell.source)
    literals = [json.loads(text[a:b], strict=False) for a, b in cell.strings]
    hunks = [h for h in difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes() if h[0] != "equal"]
    by_line = literals == source_lines and cell.array is not None
    starts = [0]
    for line in source_lines:
        starts.append(starts[-1] + len(line))
    edits = []
    for _, a, b, c, d in hunks:
        replaced = [_unmask(line, old_lines[a:b], source_lines[a:b]) for line in new_lines[c:d]]
        if by_line:
            edits.append(_lines(text, cell, a, b, replaced))
        else:
            edits.append(Edit(cell.places[starts[a]], cell.places[starts[b]], _encode(text, "".join(replaced))[1:-1]))
    if not by_line and cell.array is not None:
        # The lines do not match the strings, so the whole array is written again.
        result = _spliced(source_lines, old_lines, new_lines, hunks)
        separator = text[cell.strings[0][1]:cell.strings[1][0]] if len(cell.strings) > 1 else ", "
        return [Edit(cell.strings[0][0], cell.strings[-1][1], separator.join(_encode(text, line) for line in result))]
    return edits


def _split(text: str) -> list[str]:
    """The lines of a cell, as Jupyter splits them into strings."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _spliced(source_lines: list[str], old_lines: list[str], new_lines: list[str], hunks: list) -> list[str]:
    result, at = [], 0
    for _, a, b, c, d in hunks:
        result += source_lines[at:a] + [_unmask(line, old_lines[a:b], source_lines[a:b]) for line in new_lines[c:d]]
        at = b
    return result + source_lines[at:]


def _lines(text: str, cell: Cell, a: int, b: int, new: list[str]) -> Edit:
    """Replaces the strings a to b of an array that has one string per line."""
    strings = cell.strings
    separator = text[strings[0][1]:strings[1][0]] if len(strings) > 1 else ", "
    encoded = separator.join(_encode(text, line) for line in new)
    if a < b:
        if new:
            return Edit(strings[a][0], strings[b - 1][1], encoded)
        if b < len(strings):
            return Edit(strings[a][0], strings[b][0], "")
        return Edit(strings[a - 1][1] if a else strings[a][0], strings[b - 1][1], "")
    if a < len(strings):
        return Edit(strings[a][0], strings[a][0], encoded + separator)
    return Edit(strings[-1][1], strings[-1][1], separator + encoded)


def _unmask(line: str, old: list[str], source: list[str]) -> str:
    """Put the magic command back at the start of a changed line."""
    match = re.match(r"([ \t]*)0; +", line)
    if match:
        for masked, original in zip(old, source):
            if masked.startswith(match[0]) and not original.startswith(match[0]):
                return original[:len(match[0])] + line[len(match[0]):]
    return line


def _encode(text: str, line: str) -> str:
    return json.dumps(line, ensure_ascii=text.isascii())
