"""Converts between the bytes of a file and its text, without losing anything."""

from __future__ import annotations

import codecs
import dataclasses
import io
import re
import tokenize

from .findings import SourceError

_BARE_NEWLINE = re.compile(r"(?<!\r)\n")


@dataclasses.dataclass(frozen=True)
class Source:
    """A file's text with all of its newlines, and how it is encoded."""

    text: str
    encoding: str
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        return self.bom + text.encode(self.encoding)

    def with_own_newlines(self, text: str) -> str:
        """Return `text`, an edited version of this source, with the source's kind of newlines."""
        if "\r\n" not in self.text or _BARE_NEWLINE.search(self.text):
            return text
        return _BARE_NEWLINE.sub("\r\n", text)


def is_binary(data: bytes) -> bool:
    return b"\0" in data[:8192]


def decode(data: bytes, python: bool) -> Source:
    """Decode a file. Python files declare their encoding. Other files are decoded as UTF-8, or else as Latin-1,
    which maps every byte to a character and back. Raises SourceError.
    """
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    body = data[len(bom):]
    encoding = "utf-8"
    if python and not bom:
        try:
            encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        except SyntaxError as error:
            raise SourceError(f"the encoding is invalid: {error.msg}", 1) from error
    try:
        source = Source(body.decode(encoding), encoding, bom)
    except UnicodeDecodeError as error:
        if not python:
            return Source(body.decode("latin-1"), "latin-1", bom)
        line = body.count(b"\n", 0, error.start) + 1
        raise SourceError(f"the file is not valid {encoding}: {error.reason}", line) from error
    if source.encode(source.text) != data:
        raise SourceError(f"the encoding {encoding} does not reproduce the file's bytes", 1)
    return source
