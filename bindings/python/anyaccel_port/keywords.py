"""A fast filter: files that contain none of the rules' keywords are not parsed.

The keywords are derived from the names that the rules match: a source that uses a name contains its
words, however it imports them.
"""

from __future__ import annotations

import functools
import re

from . import languages, rules

# Words of qualified names that are too common to be keywords.
_COMMON = frozenset(("torch", "utils", "backends", "distributed", "profiler", "autograd", "version", "nn", "Tensor", "Module", "if",
                     "available", "else", "cpu", "compare", "at", "c10", "include"))
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Rules without a keyword. In practice, their matches occur only in files with other findings.
_NO_KEYWORD = frozenset(("device:integer", ))
_ALWAYS = (b"cuda", b"nccl", b"nvidia", b"anyaccel: ignore")
# Matches that contain no keyword: kernel launches, and the names of CUDA sources.
_SIGNS = {"cpp": (b"<<<", ), "cmake": (b".cu", ), "shell": (b".cu", )}


def _keyword(name: str) -> bytes | None:
    """A word that a source must contain for the name to match, in lowercase."""
    prefix, colon, rest = name.partition(":")
    words = [word.lower() for word in _WORD.findall(rest if colon and "." not in prefix else name) if word not in _COMMON]
    if name in _NO_KEYWORD or not words:
        return None
    return next((key for key in _ALWAYS if any(key in word.encode() for word in words)), max(words, key=len).encode())


@functools.cache
def keywords() -> tuple[bytes, ...]:
    """The keywords, in lowercase; none of them contains another one."""
    found = {key for rule in rules.RULES for name in rule.names if (key := _keyword(name))} | set(_ALWAYS)
    return tuple(
        sorted((word for word in found if not any(other != word and other in word for other in found)),
               key=lambda w: (w != b"cuda", w)))


def may_match(data: bytes, language: languages.Language = languages.PYTHON) -> bool:
    """Whether a file contains a keyword. False means that no rule matches."""
    if language == languages.REQUIREMENTS:
        return True  # these short files can list packages that no rule names
    lowered = data.lower()
    return any(word in lowered for word in keywords()) or any(sign in lowered for sign in _SIGNS.get(language.name, ()))
