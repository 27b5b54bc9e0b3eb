"""Checks the syntax of files that are not analyzed, because they contain no keyword."""

from __future__ import annotations

import ast
import warnings

from . import languages

LANGUAGES = (languages.PYTHON, languages.NOTEBOOK)


def check(text: str, file: str, language: languages.Language, target: str) -> None:
    """Raise SourceError if a Python file or a notebook cannot be parsed.

    Python's own parser is much faster than the finder's. If it rejects a source, the finder decides,
    because the source may use syntax of a newer Python version.
    """
    code = text if language == languages.PYTHON else languages.finder(language.module).code_of(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        languages.finder(language.module).find(text, file, target)
