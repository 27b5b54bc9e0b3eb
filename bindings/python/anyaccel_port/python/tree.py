"""A parsed Python source: LibCST's tree, and the offset of each node in the text."""

from __future__ import annotations

import gc
import re
import sys

import libcst as cst
from libcst._nodes.internal import CodegenState

from ..findings import SourceError

_RECURSION = 12000
_PLACE = re.compile(r"parser error: error at (\d+):(\d+)")

_SOME = range(1)


class _Span:
    """Records the part of a node that its parentheses and whitespace enclose."""

    __slots__ = ("state", "node", "start_node", "end_node", "start")

    def __init__(self, state: _Positions, node, start_node, end_node):
        self.state, self.node, self.start_node, self.end_node = state, node, start_node, end_node

    def __enter__(self):
        self.start = self.state.offset

    def __exit__(self, *_):
        state = self.state
        start = self.start if self.start_node is None else state.inner_start(self.start_node)
        end = state.offset if self.end_node is None else state.inner_end(self.end_node)
        state.inner[id(self.node)] = (start, end)


class _Positions(CodegenState):
    """Generates no code, but counts its characters: LibCST's trees have no positions. This is much
    faster than LibCST's metadata, because it visits each node once and copies nothing."""

    def __init__(self, offset: int):
        self.indent_tokens: list[str] = []
        self.tokens = range(0)  # LibCST uses only its length.
        self.offset = offset
        self.last = 0
        self.starts: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.inner: dict[int, tuple[int, int]] = {}

    def add_token(self, value: str) -> None:
        self.last = len(value)
        self.offset += self.last
        self.tokens = _SOME

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.offset += len(token)

    def before_codegen(self, node) -> None:
        self.starts[id(node)] = self.offset

    def after_codegen(self, node) -> None:
        self.ends[id(node)] = self.offset

    def pop_trailing_newline(self) -> None:
        self.offset -= self.last

    def record_syntactic_position(self, node, *, start_node=None, end_node=None):
        return _Span(self, node, start_node, end_node)

    def inner_start(self, node) -> int:
        span = self.inner.get(id(node))
        return span[0] if span else self.starts[id(node)]

    def inner_end(self, node) -> int:
        span = self.inner.get(id(node))
        return span[1] if span else self.ends[id(node)]


class Tree:
    """A source and its syntax tree."""

    def __init__(self, text: str):
        self.text = text
        self.module, self._positions = _parse(text)

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """The offsets of a node without parentheses around it and without leading comments."""
        key = id(node)
        found = self._positions.inner.get(key)
        return found if found else (self._positions.starts[key], self._positions.ends[key])

    def outer(self, node: cst.CSTNode) -> tuple[int, int]:
        """The offsets of an expression with the parentheses around it."""
        key = id(node)
        return self._positions.starts[key], self._positions.ends[key]

    def source(self, node: cst.CSTNode) -> str:
        start, end = self.span(node)
        return self.text[start:end]


def _broken(text: str, error: cst.ParserSyntaxError) -> SourceError:
    place = _PLACE.match(error.message)
    if place is None:
        return SourceError(f"Python cannot be parsed: {error.message.splitlines()[0]}", error.raw_line)
    line = min(int(place.group(1)), len(text.splitlines()) or 1)
    return SourceError(
        f"Python cannot be parsed: invalid syntax at line {line}, column {int(place.group(2)) + 1} (expected Python 3)", line)


def _parse(text: str) -> tuple[cst.Module, _Positions]:
    mark = 1 if text.startswith("\ufeff") else 0
    collecting, limit = gc.isenabled(), sys.getrecursionlimit()
    gc.disable()  # The tree has many nodes and no garbage; collections would take most of the time.
    sys.setrecursionlimit(max(limit, _RECURSION))
    try:
        module = cst.parse_module(text[mark:])
        positions = _Positions(mark)
        positions.default_indent, positions.default_newline = module.default_indent, module.default_newline
        module._codegen(positions)
    except cst.ParserSyntaxError as error:
        raise _broken(text, error) from None
    except (UnicodeError, ValueError) as error:
        raise SourceError(f"Python cannot be parsed: {error}") from None
    except RecursionError:
        raise SourceError("Python cannot be parsed: an expression is nested too deeply") from None
    finally:
        sys.setrecursionlimit(limit)
        if collecting:
            gc.enable()
    if positions.offset != len(text):
        raise SourceError("Python cannot be parsed: the parser does not reproduce the source")
    return module, positions
