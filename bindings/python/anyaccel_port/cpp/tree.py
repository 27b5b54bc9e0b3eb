"""A C++ or CUDA source with its syntax tree, and the code around a name in it."""

from __future__ import annotations

import tree_sitter
import tree_sitter_cuda

from .. import matching
from . import patterns
from .text import Blanked

_LANGUAGE = tree_sitter.Language(tree_sitter_cuda.language())


class Tree:
    """`code` is the text without comments and literals, which is searched for names. The syntax tree shows
    what surrounds a name: the call, its arguments, and whether the result is used. Raises SourceError
    for unclosed comments or brackets."""

    def __init__(self, text: str):
        self.text = text
        self.blanked = Blanked(text)
        self.blanked.check()
        self.code = self.blanked.code
        self.offsets = matching.Offsets(text)
        self.root = tree_sitter.Parser(_LANGUAGE).parse(text.encode("utf-8", "surrogatepass")).root_node

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

    def of_object(self, start: int) -> bool:
        """Whether the name that begins at `start` is a member of an object."""
        return self.code[max(0, start - 80):start].rstrip().endswith((".", "->"))
