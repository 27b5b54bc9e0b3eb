"""Text of C++ sources: comments and string literals blanked out, brackets matched.

The finder looks for names in this text, so it also finds them in code that the grammar does not
understand, such as uses of macros.
"""

from __future__ import annotations

import re

from ..findings import Lines, SourceError

# Each alternative starts with a literal character, which makes the search fast.
_TOKEN = re.compile(
    r"//[^\n]*(?:(?<=\\)\n[^\n]*)*|"
    r"/\*.*?(?:\*/|(?P<comment>\Z))|"
    r"R\"(?P<mark>[^()\\\s\"]{0,16})\(.*?(?:\)(?P=mark)\"|(?P<raw>\Z))|"
    r"\"(?:[^\"\\\n]|\\.)*(?P<close>\")?|"
    r"'(?<![0-9a-fA-F]')(?:[^'\\\n]|\\.){1,8}'", re.S)
_OPEN = {"(": ")", "[": "]", "{": "}"}
_CLOSE = {close: open_ for open_, close in _OPEN.items()}
_BRACKET = re.compile(r"[()\[\]{}]")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M | re.S)


def _spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text) if "\n" in text else " " * len(text)


class Blanked:
    """`code`: the text with comments and literals replaced by spaces, except for the literals'
    quotes. `strings`: the spans of string literals, quotes included."""

    def __init__(self, text: str):
        parts, at, self.strings = [], 0, []
        for match in _TOKEN.finditer(text):
            start, end = match.span()
            if match["comment"] is not None or match["raw"] is not None:
                kind = "comment" if match["raw"] is None else "raw string"
                raise SourceError(f"unterminated {kind}", Lines(text).position(start)[0])
            parts.append(text[at:start])
            if match["close"]:
                self.strings.append((start, end))
                parts.append('"' + _spaces(text[start + 1:end - 1]) + '"')
            else:
                parts.append(_spaces(text[start:end]))
            at = end
        parts.append(text[at:])
        self.code = "".join(parts)

    def check(self):
        """Raise SourceError if brackets do not match. Sources with preprocessor conditions can repeat a
        bracket in each branch, so they are not checked."""
        if re.search(r"^[ \t]*#[ \t]*if", self.code, re.M):
            return
        code = _DIRECTIVE.sub(lambda m: _spaces(m[0]), self.code)
        stack: list[tuple[str, int]] = []
        for match in _BRACKET.finditer(code):
            bracket = match[0]
            if bracket in _OPEN:
                stack.append((bracket, match.start()))
            elif not stack or stack.pop()[0] != _CLOSE[bracket]:
                raise SourceError(f"unmatched {bracket!r}", Lines(code).position(match.start())[0])
        if stack:
            raise SourceError(f"unmatched {stack[-1][0]!r}", Lines(code).position(stack[-1][1])[0])

    def closing(self, start: int) -> int | None:
        """The offset after the bracket that closes the one at `start`."""
        stack = []
        for match in _BRACKET.finditer(self.code, start):
            if match[0] in _OPEN:
                stack.append(match[0])
            elif not stack or stack.pop() != _CLOSE[match[0]]:
                return None
            if not stack:
                return match.end()
        return None

    def skip(self, offset: int) -> int:
        """The offset of the next character that is not a space."""
        code = self.code
        while offset < len(code) and code[offset] in " \t\r\n":
            offset += 1
        return offset

    def definition(self, start: int) -> int:
        """The end of the function or variable whose declaration contains `start`."""
        at = start
        for match in re.finditer(r"[(\[{;]", self.code[start:start + 100_000]):
            offset = start + match.start()
            if offset < at:
                continue
            if match[0] == ";":
                return offset + 1
            end = self.closing(offset)
            if end is None:
                return offset + 1
            if match[0] == "{":
                return end
            at = end
        return start
