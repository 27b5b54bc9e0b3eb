"""Untrusted text in messages of the Python package, with the cases of
tests/unit/base/untrusted_text_test.cpp.
"""
import importlib.util
import os
import pathlib
import signal

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("untrusted_text", ROOT / "bindings/python/anyaccel/_untrusted_text.py")
text_of = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(text_of)


# Fails if the result of a rule differs from the data file, which the C++ test also reads.
def test_matches_the_data_file():
    escaped, cases = set(), 0
    for line in (ROOT / "tests/data/untrusted_text.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("escaped "):
            first, last = (int(word, 16) for word in line.split()[1:])
            escaped.update(range(first, last + 1))
            continue
        kind, limit, given, expected = line.split(" ", 3)
        given = b"" if given == "-" else bytes.fromhex(given)
        assert getattr(text_of, kind + "_text")(given, int(limit)) == expected, line
        assert getattr(text_of, kind + "_text")(given.decode("utf-8", "surrogateescape"), int(limit)) == expected, line
        cases += 1
    assert cases > 20
    for code in range(0x110000):
        c = chr(code)
        if 0xd800 <= code < 0xe000 or c in '"\\':
            continue
        assert (text_of.quoted_text(c) != f'"{c}"') == (code in escaped), hex(code)
        assert (text_of.printable_text(c) != c) == (code in escaped and c not in "\n\t"), hex(code)


# Fails if a long text is printed in full, or a str that UTF-8 cannot encode raises an error.
def test_truncates_long_texts_and_accepts_any_str():
    assert text_of.quoted_text("x" * 300000) == '"' + "x" * 200 + '..." (300000 bytes)'
    message = text_of.printable_text("start\n" + "x" * 300000 + "; do this")
    assert len(message) < 8100 and message.startswith("start\nxxx") and message.endswith("xxx; do this")
    assert text_of.quoted_text("\ud800") == '"\\xed\\xa0\\x80"'
    assert text_of.quoted_text(pathlib.Path("a\x1b")) == '"a\\x1b"'


# Fails if an error raised in Python contains control characters of its input.
def test_errors_are_printable():
    from anyaccel.errors import make_error
    assert str(make_error("io", "f", "a\x1b[31m", got="b\u202e")) == "[f] a\\x1b[31m; got b\\u202e"


# Fails if a FIFO or a device is opened, or an oversized file is read.
def test_reads_regular_files_only(tmp_path):
    from anyaccel._files import read_regular
    from anyaccel.errors import Error
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(tmp_path / "file", 5) == b"12345"
    os.mkfifo(tmp_path / "fifo")
    signal.alarm(20)
    for path, code in ((tmp_path / "fifo", "io"), ("/dev/zero", "io"), (tmp_path, "io"), (tmp_path / "file", "corrupt")):
        with pytest.raises(Error) as raised:
            read_regular(path, 4)
        assert raised.value.code == code
    signal.alarm(0)
