"""Checks the syntax of files that contain no keyword, and that are therefore not analyzed."""

from __future__ import annotations

import ast
import warnings

from . import languages

LANGUAGES = (languages.PYTHON, languages.NOTEBOOK)


def check(text: str, file: str, language: languages.Language, target: str) -> None:
    """Raise SourceError if a Python file or a notebook cannot be parsed.

    Python's own parser is much faster than the finder's. The finder decides about sources that it
    rejects, because they may use the syntax of a newer version.
    """
    code = text if language == languages.PYTHON else languages.finder(language.module).code_of(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        languages.finder(language.module).find(text, file, target)
