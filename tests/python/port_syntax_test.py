"""`anyaccel port`: sources that cannot be parsed are reported, even if they contain no keyword."""
import json

import pytest

pytest.importorskip("libcst", reason="libcst is not installed; `anyaccel port` needs it for Python sources")

from port_command import port  # noqa: E402  isort: skip (port_command adds the package's folder to the path)

CELL = {"cell_type": "code", "source": [], "metadata": {}, "outputs": [], "execution_count": None}


def notebook(*cells):
    return json.dumps({"cells": [{**CELL, "source": [text]} for text in cells], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


# Fails if --check passes although a file cannot be parsed.
@pytest.mark.parametrize("name, text, message", [
    ("a.py", "x = (\n", "Python cannot be parsed: invalid syntax at line "),
    ("a.py", "print 'x'\n", "Python cannot be parsed: invalid syntax at line 1, column "),
    ("a.py", "# coding: latin-1\nx = 'é'\ndef f(:\n", "invalid syntax at line 3, column "),
    ("a.py", "# coding: nonsense\n", "the encoding is invalid"),
    ("a.ipynb", "{", "not a notebook"),
    ("a.ipynb", notebook("x = 1", "y = ("), "cell 2: Python cannot be parsed: invalid syntax at line "),
])
def test_broken_source_without_keyword(tmp_path, capfdbinary, name, text, message):
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    code, out, _ = port(capfdbinary, "--check", "--no-config", tmp_path)
    assert code == 1 and message in out
    code, out, _ = port(capfdbinary, "--format", "json", "--no-config", tmp_path)
    broken, = json.loads(out)["broken"]
    assert code == 0 and message in broken["message"]


# Fails if a source is rejected that Python, or a newer version of it, accepts.
@pytest.mark.parametrize("name, text", [("a.py", ""), ("a.py", "\ufeffx = 1\r\n"), ("a.py", "x = '\\d'\n"),
                                        ("a.py", "match x:\n    case 1: pass\n"),
                                        ("a.py", "type A[T = int] = list[T]\n"), ("a.pyi", "def f(x: int = ...) -> str: ...\n"),
                                        ("a.ipynb", notebook("%matplotlib inline\n!ls\nawait f()", "%%bash\nif then")),
                                        ("a.cpp", "int f( {\n")])
def test_sources_that_are_accepted(tmp_path, capfdbinary, name, text):
    (tmp_path / name).write_bytes(text.encode())
    code, out, _ = port(capfdbinary, "--check", "--no-config", tmp_path)
    assert code == 0, out
