"""The cells of a notebook's JSON text, with the place of each character of their sources."""

from __future__ import annotations

import dataclasses
import json
import re

from .findings import SourceError

_TOKEN = re.compile(r"\s*(?:(\"(?:[^\"\\]|\\.)*\")|([{}\[\],:])|([^\s{}\[\],:\"]+))", re.S)
_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.S)


@dataclasses.dataclass
class Cell:
    """A code cell. `strings`: the spans of the string literals that make up its source. `array`: the
    span of the array around them, None if the source is a single string."""

    number: int
    strings: list[tuple[int, int]]
    array: tuple[int, int] | None
    source: str = ""
    places: list[int] = dataclasses.field(default_factory=list)  # of each character of the source, and of its end


def cells(text: str) -> list[Cell]:
    """The code cells of a notebook. Raises SourceError if the text is not a notebook."""
    try:
        if not isinstance(json.loads(text), dict):
            raise SourceError("not a notebook: expected a JSON object", 1)
        found = _Reader(text).read()
    except RecursionError:
        raise SourceError("not a notebook: nested too deeply", 1) from None
    except ValueError as error:
        raise SourceError(f"not a notebook: {error}", getattr(error, "lineno", 0)) from None
    for cell in found:
        parts = []
        for start, end in cell.strings:
            cell.places += _places(text, start, end)
            parts.append(json.loads(text[start:end], strict=False))
        cell.source = "".join(parts)
        cell.places.append(cell.strings[-1][1] - 1 if cell.strings else 0)
    return found


def _places(text: str, start: int, end: int) -> list[int]:
    return [match.start() for match in _ESCAPE.finditer(text, start + 1, end - 1)]


class _Reader:
    """Walks through the tokens and remembers where the cells' sources are."""

    def __init__(self, text: str):
        self.text = text
        self.at = 0

    def next(self) -> re.Match | None:
        match = _TOKEN.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def read(self) -> list[Cell]:
        found: list[Cell] = []
        self.value(found, ())
        return [cell for cell in found if cell.strings]

    def value(self, found: list[Cell], path: tuple) -> None:
        """Read a value. `path`: the keys and indexes that lead to it."""
        token = self.next()
        if token is None:
            return
        if token[2] == "{":
            self.members(found, path)
        elif token[2] == "[":
            start = token.start(2)
            strings = []
            number = 0
            while (token := self.next()) is not None and token[2] != "]":
                if token[2] == ",":
                    continue
                self.at = token.start() if token[1] is None else token.end()
                if token[1] is not None:
                    strings.append(token.span(1))
                else:
                    self.value(found, (*path, number))
                number += 1
            self.source(found, path, strings, (start, self.at))
        elif token[1] is not None:
            self.source(found, path, [token.span(1)], None)

    def source(self, found: list[Cell], path: tuple, strings: list[tuple[int, int]], array: tuple[int, int] | None):
        if path[-1:] == ("source", ) and _is_cell(path[:-1]):
            self.pending = Cell(path[-2] + 1, strings, array)
        elif path[-1:] == ("input", ) and _is_cell(path[:-1]):  # notebooks of format 3
            self.pending = Cell(path[-2] + 1, strings, array)
        elif path[-1:] == ("cell_type", ) and _is_cell(path[:-1]) and strings:
            self.kind = json.loads(self.text[slice(*strings[0])])

    pending: Cell | None = None
    kind = ""

    def members(self, found: list[Cell], path: tuple):
        cell = _is_cell(path)
        if cell:
            self.pending, self.kind = None, ""
        while (token := self.next()) is not None and token[2] != "}":
            if token[1] is not None:
                key = json.loads(token[1], strict=False)
                self.next()  # the colon
                self.value(found, (*path, key))
        if cell and self.kind == "code" and self.pending is not None:
            found.append(self.pending)


def _is_cell(path: tuple) -> bool:
    return len(path) >= 2 and path[-2] == "cells" and isinstance(path[-1], int) and (len(path) == 2 or path[0] == "worksheets")
