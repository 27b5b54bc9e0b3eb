"""Untrusted text in messages of the Python package; the cases are those of tests/unit/base/untrusted_text_test.cpp."""
import importlib.util
import pathlib

ROOT = pathlib.Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("untrusted_text", ROOT / "bindings/python/anyaccel/_untrusted_text.py")
text_of = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(text_of)


# Breaks when a rule differs from the data file, which the test of the C++ functions reads too.
def test_prints_what_the_data_file_says():
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


# Breaks when a long text is printed whole, or a str that UTF-8 cannot hold raises.
def test_cuts_long_texts_and_takes_any_str():
    assert text_of.quoted_text("x" * 300000) == '"' + "x" * 200 + '..." (300000 bytes)'
    message = text_of.printable_text("start\n" + "x" * 300000 + "; do this")
    assert len(message) < 8100 and message.startswith("start\nxxx") and message.endswith("xxx; do this")
    assert text_of.quoted_text("\ud800") == '"\\xed\\xa0\\x80"'
    assert text_of.quoted_text(pathlib.Path("a\x1b")) == '"a\\x1b"'
