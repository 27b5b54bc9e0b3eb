"""`anyaccel port`: suppressions, the baseline, settings, exit codes and formats."""
import html.parser
import json
import subprocess

import pytest
from port_command import FINDER, port, use_finder

from anyaccel_port import edits, languages, suppress
from anyaccel_port.findings import Edit

LINE = "torch.cuda.synchronize()\n"


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    use_finder(monkeypatch)
    monkeypatch.chdir(tmp_path)


# Fails if --check passes although work is left, or fails although none is.
@pytest.mark.parametrize("text, plain, check, fix_check", [(LINE, 0, 1, 0), ("torch.cuda.nccl\n", 0, 1, 1),
                                                           ("torch.cuda.seed()\n", 0, 1, 1), ("x\n", 0, 0, 0)])
def test_exit_codes(tmp_path, capfdbinary, text, plain, check, fix_check):
    (tmp_path / "a.py").write_text(text)
    assert port(capfdbinary, ".")[0] == plain
    assert port(capfdbinary, "--check", ".")[0] == check
    assert port(capfdbinary, "--check", "--diff", ".")[0] == fix_check
    assert port(capfdbinary, "--check", "--fix", ".")[0] == fix_check


# Fails if an invalid command line is accepted, or if the message does not name its cause.
@pytest.mark.parametrize("words, message", [((), "no file or folder"), (("--to", "rocm", "."), "--to"),
                                            (("--nonsense", "."), "--nonsense"), (("--fix", "--diff", "."), "--diff"),
                                            (("--update-baseline", "."), "--baseline"),
                                            (("--unsafe-fixes", "."), "--unsafe-fixes requires"), (("--jobs", "-1", "."), '"-1"'),
                                            (("--select", "cuda-synchronise", "."), "Did you mean cuda-synchronize?"),
                                            (("--baseline", "none.json", "."), "--update-baseline"),
                                            (("--explain", "nothing"), "no rule is named"),
                                            (("--verify", "true", ".", "."), "one folder"),
                                            (("--max-file-size", "1e3", "."), "1e3")])
def test_wrong_usage(capfdbinary, words, message):
    code, out, err = port(capfdbinary, *words)
    assert (code, out) == (2, "") and message in err and err.startswith("anyaccel port: error: ")


# Fails if --unsafe-fixes is not needed for replacements that need review, or if underscores in
# options are rejected.
def test_unsafe_fixes(tmp_path, capfdbinary):
    (tmp_path / "a.py").write_text(LINE + "torch.cuda.seed()\n")
    port(capfdbinary, "--fix", ".")
    assert (tmp_path / "a.py").read_text() == "get_accelerator().synchronize()\ntorch.cuda.seed()\n"
    port(capfdbinary, "--fix", "--unsafe_fixes", ".")
    assert (tmp_path / "a.py").read_text() == "get_accelerator().synchronize()\ndevice_module.seed()\n"


# Fails if places that an outer edit covers are left after the fix.
def test_fixes_until_nothing_is_left(tmp_path, capfdbinary, monkeypatch):

    def fix_one(text, findings, target):
        return edits.apply_findings(text, findings[:1])[0]

    use_finder(monkeypatch, type("Finder", (), {"find": staticmethod(FINDER.find), "fix": staticmethod(fix_one)}))
    (tmp_path / "a.py").write_text(LINE * 5)
    _, out, _ = port(capfdbinary, "--fix", ".")
    assert "5 findings fixed in 1 file" in out and "0 findings left" in out
    assert (tmp_path / "a.py").read_text() == "get_accelerator().synchronize()\n" * 5


# Fails if a fix that breaks the source is written.
def test_a_fix_that_breaks_the_source(tmp_path, capfdbinary, monkeypatch):
    use_finder(monkeypatch,
               type("Finder", (), {
                   "find": staticmethod(FINDER.find),
                   "fix": lambda text, findings, target: "cuda BROKEN\n"
               }))
    (tmp_path / "a.py").write_text(LINE)
    code, _, err = port(capfdbinary, "--fix", ".")
    assert code == 1 and "the fixed file would be broken at line 1: unexpected word BROKEN" in err
    assert (tmp_path / "a.py").read_text() == LINE


def test_edits_outer_wins():
    text = "0123456789"
    outer, inner, other = [Edit(1, 6, "[outer]")], [Edit(2, 3, "x")], [Edit(6, 6, "+"), Edit(8, 9, "y")]
    chosen, kept = edits.choose([inner, other, outer])
    assert kept == [1, 2] and edits.apply(text, chosen) == "0[outer]+67y9"
    # The edits of a group are applied together or not at all, and equal edits once.
    chosen, kept = edits.choose([[Edit(0, 0, "import\n"), Edit(1, 2, "a")], [Edit(0, 0, "import\n"),
                                                                             Edit(5, 6, "b")], [Edit(1, 1, "!"),
                                                                                                Edit(5, 7, "c")]])
    assert kept == [0, 2] and edits.apply(text, chosen) == "import\n0!a234c789"
    with pytest.raises(ValueError, match="overlapping"):
        edits.apply(text, [Edit(0, 3, ""), Edit(2, 4, "")])


# Fails if a suppression accepts another line or another rule, or if text in a string suppresses.
@pytest.mark.parametrize("name, text, left", [
    ("a.py", "torch.cuda.synchronize()  # anyaccel: ignore\n", 0),
    ("a.py", "torch.cuda.synchronize()  # anyaccel: ignore[cuda-seed, cuda-synchronize]\n", 0),
    ("a.py", "torch.cuda.synchronize()  # anyaccel: ignore[cuda-seed]\n", 1),
    ("a.py", "# anyaccel: ignore\ntorch.cuda.synchronize()\ntorch.cuda.seed()\n", 1),
    ("a.py", "x = 1  # anyaccel: ignore\ntorch.cuda.synchronize()\n", 1),
    ("a.py", "x = '# anyaccel: ignore', torch.cuda.synchronize()\n", 1),
    ("a.py", "torch.cuda.synchronize()  # anyaccel: ignored\n", 1),
    ("a.cu", "torch.cuda.synchronize();  // anyaccel: ignore[cuda-synchronize]\n", 0),
    ("a.cu", "/* anyaccel: ignore */\ntorch.cuda.synchronize();\n", 0),
    ("a.sh", "torch.cuda.synchronize # anyaccel: ignore\n", 0),
    ("a.yaml", "a: torch.cuda.synchronize  # anyaccel: ignore\n", 0),
])
def test_suppressions(tmp_path, capfdbinary, name, text, left):
    (tmp_path / name).write_text(text)
    _, out, _ = port(capfdbinary, "--format", "json", ".")
    assert sum(not finding["suppressed"] for finding in json.loads(out)["findings"]) == left
    assert port(capfdbinary, "--check", ".")[0] == (left > 0)
    port(capfdbinary, "--fix", "--unsafe-fixes", ".")
    assert ("torch.cuda.synchronize" in (tmp_path / name).read_text()) == (left == 0 or text.startswith("# anyaccel: ignore\n"))


def test_unused_suppressions(tmp_path, capfdbinary):
    (tmp_path /
     "a.py").write_text("x = 1  # anyaccel: ignore\ntorch.cuda.seed()  # anyaccel: ignore[cuda-seed, cuda-sed, cuda-nccl]\n")
    code, out, _ = port(capfdbinary, "--check", ".")
    assert code == 0
    for message in ("a.py:1: unused suppression: it accepts no finding", "a.py:2: unused suppression: 'cuda-sed' is not a rule",
                    "a.py:2: unused suppression: cuda-nccl has no finding here"):
        assert message in out
    # Suppressions of rules that are not looked for are not unused.
    _, out, _ = port(capfdbinary, "--select", "cuda-seed", ".")
    assert "cuda-nccl" not in out and "a.py:1" not in out


def test_suppressions_in_notebooks():
    cells = [{
        "cell_type": "code",
        "source": ["%matplotlib inline\n", "f()  # anyaccel: ignore\n"]
    }, {
        "cell_type": "code",
        "source": "# anyaccel: ignore[nccl]\ng()"
    }]
    found = suppress.read(json.dumps({"cells": cells}), languages.NOTEBOOK)
    assert [(each.cell, each.line, each.applies_to, each.rules) for each in found] == [(1, 2, 2, ()), (2, 1, 2, ("nccl", ))]


# Fails if the baseline hides a new finding, or if moved code counts as new.
def test_baseline(tmp_path, capfdbinary):
    (tmp_path / "a.py").write_text(LINE)
    words = ("--baseline", "known.json")
    code, _, err = port(capfdbinary, *words, "--update-baseline", "--check", ".")
    assert code == 0 and 'wrote 1 finding to "known.json"' in err
    (tmp_path / "a.py").write_text("\n\n" + LINE)
    code, out, _ = port(capfdbinary, *words, "--check", ".")
    assert code == 0 and "1 in the baseline" in out
    (tmp_path / "a.py").write_text(LINE * 2)
    code, out, _ = port(capfdbinary, *words, "--check", ".")
    assert code == 1 and "1 finding in 1 of 1 file" in out
    (tmp_path / "a.py").write_text("x = 1\n")
    code, out, _ = port(capfdbinary, *words, "--check", ".")
    assert code == 0 and "no longer found: a.py: torch.cuda.synchronize [cuda-synchronize]" in out
    for content in ("{", "[]", '{"version": 2, "findings": []}', '{"version": 1, "findings": [{}]}', "[" * 100_000):
        (tmp_path / "known.json").write_text(content)
        code, _, err = port(capfdbinary, *words, ".")
        assert code == 2 and "is not a baseline" in err, content


# Fails if a setting is ignored or an option does not take precedence.
def test_settings(tmp_path, capfdbinary):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.anyaccel.port]\nexclude = ["old"]\nignore = ["cuda-se*"]\ncheck = true\nto = "deepspeed"\n'
        'per-file-ignores = {"tests/*" = ["cuda-synchronize"]}\n')
    for name in ("a.py", "old/b.py", "tests/c.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(LINE + "torch.cuda.seed()\n")
    code, out, _ = port(capfdbinary, "--format", "json", ".")
    report = json.loads(out)
    assert (code, report["target"], report["files"]) == (1, "deepspeed", 3)
    assert [(f["file"], f["rule"]) for f in report["findings"]] == [("a.py", "cuda-synchronize")]
    report = json.loads(port(capfdbinary, "--format", "json", "--to", "anyaccel", "tests/c.py")[1])
    assert (report["target"], report["findings"]) == ("anyaccel", [])
    assert len(json.loads(port(capfdbinary, "--format", "json", "--no-config", ".")[1])["findings"]) == 6


@pytest.mark.parametrize("text, message", [("chekc = true", 'unknown key "chekc"'), ("check = 1", "expected true or false"),
                                           ('ignore = "x"', "expected a list of strings"),
                                           ('ignore = ["x"]', 'no rule is named "x"'), ('to = "rocm"', "expected one of anyaccel"),
                                           ("= 3", "is not valid TOML"),
                                           ('per-file-ignores = {"a" = 3}', "expected a table of lists of strings")])
def test_invalid_settings(tmp_path, capfdbinary, text, message):
    (tmp_path / "pyproject.toml").write_text("[tool.anyaccel.port]\n" + text + "\n")
    code, _, err = port(capfdbinary, ".")
    assert code == 2 and message in err


# Fails if a language whose package is missing stops the others, or if --check passes without it.
def test_missing_package(tmp_path, capfdbinary, monkeypatch):

    def finder(module):
        if module == "cpp":
            raise languages.MissingPackage("tree_sitter")
        return FINDER

    monkeypatch.setattr(languages, "finder", finder)
    (tmp_path / "a.py").write_text(LINE)
    (tmp_path / "b.cu").write_text(LINE)
    code, out, err = port(capfdbinary, ".")
    assert code == 0 and "a.py:1:1" in out
    assert err == (
        "anyaccel port: 1 file (C++ or CUDA) was not examined, because the Python package tree_sitter is not installed. "
        "Run: pip install 'anyaccel[port]'\n")
    (tmp_path / "a.py").unlink()
    assert port(capfdbinary, "--check", ".")[0] == 1


# Fails if git cannot apply the diff, or if the result differs from that of --fix.
def test_diff(tmp_path, capfdbinary):
    (tmp_path / "a.py").write_bytes(b"# \xc3\xa9\r\n" + LINE.encode() + b"x = 1\n" * 10 + LINE.strip().encode())
    (tmp_path / "sub dir").mkdir()
    (tmp_path / "sub dir/b\tc.py").write_text(LINE)
    _, out, _ = port(capfdbinary, "--diff", ".")
    assert (tmp_path / "sub dir/b\tc.py").read_text() == LINE
    subprocess.run(["git", "apply", "-"], input=out.encode("utf-8", "surrogateescape"), check=True, cwd=tmp_path)
    applied = {path: path.read_bytes() for path in tmp_path.rglob("*.py")}
    assert b"get_accelerator()" in applied[tmp_path / "a.py"] and b"torch.cuda" not in b"".join(applied.values())
    (tmp_path / "a.py").write_bytes(b"# \xc3\xa9\r\n" + LINE.encode() + b"x = 1\n" * 10 + LINE.strip().encode())
    port(capfdbinary, "--fix", ".")
    assert (tmp_path / "a.py").read_bytes() == applied[tmp_path / "a.py"]


HOSTILE = "</script><img src=x onerror=alert(1)>"


# Fails if a file's name or source can add elements or scripts to the page, or if it loads anything.
def test_html(tmp_path, capfdbinary, monkeypatch):

    def find(text, file, target):
        found = FINDER.find(text, file, target)
        for finding in found:
            finding.text = finding.message = HOSTILE + "\x1b[2J\u202e"
        return found

    use_finder(monkeypatch, type("Finder", (), {"find": staticmethod(find), "fix": staticmethod(FINDER.fix)}))
    (tmp_path / "<img src=y>.py").write_text(LINE + "torch.cuda.nccl\n")
    assert port(capfdbinary, "--html", "report.html", ".")[0] == 0
    page = (tmp_path / "report.html").read_text()
    seen = []

    class Parser(html.parser.HTMLParser):

        def handle_starttag(self, tag, attributes):
            seen.append((tag, dict(attributes)))

    Parser().feed(page)
    tags = {tag for tag, _ in seen}
    assert not tags & {"script", "img", "link", "iframe"} and not any(name in ("src", "href", "onerror") for _, given in seen
                                                                      for name in given)
    assert "\x1b" not in page and "\u202e" not in page and "&lt;img src=y&gt;.py" in page
    assert "prefers-color-scheme: dark" in page and "What needs manual work" in page and "url(" not in page


def test_sarif(tmp_path, capfdbinary):
    (tmp_path / "a b.py").write_text("x = 1\n" + LINE * 2 + "torch.cuda.nccl  # anyaccel: ignore\ncuda\n")
    (tmp_path / "bad.py").write_text("cuda BROKEN\n")
    content = json.loads(port(capfdbinary, "--format", "sarif", ".")[1])
    run = content["runs"][0]
    results = run["results"]
    assert content["version"] == "2.1.0" and [r["ruleId"]
                                              for r in results] == ["cuda-synchronize"] * 2 + ["cuda-nccl", "broken-source"]
    assert results[0]["locations"][0]["physicalLocation"] == {
        "artifactLocation": {
            "uri": "a%20b.py"
        },
        "region": {
            "startLine": 2,
            "startColumn": 1,
            "endLine": 2,
            "endColumn": 23
        }
    }
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} == {"cuda-synchronize", "cuda-nccl", "broken-source"}
    assert results[2]["suppressions"] == [{
        "kind": "inSource"
    }] and results[0]["partialFingerprints"] != results[1]["partialFingerprints"]


# Fails if a file name can add a workflow command.
def test_github(tmp_path, capfdbinary):
    (tmp_path / "a,b%.py").write_text(LINE + "torch.cuda.nccl\n")
    (tmp_path / "n\n::error::x.py").write_text(LINE)
    lines = port(capfdbinary, "--format", "github", ".")[1].splitlines()
    assert lines[0] == (
        "::warning file=a%2Cb%25.py,line=1,col=1,title=anyaccel port%3A cuda-synchronize::torch.cuda.synchronize -> "
        "get_accelerator().synchronize%0Athe reason")
    assert lines[1].startswith("::error file=a%2Cb%25.py,line=2") and lines[2].startswith(
        "::warning file=n%0A%3A%3Aerror%3A%3Ax.py,")
    assert len(lines) == 3


# Fails if control characters in a name or in source reach the terminal.
def test_text_is_escaped(tmp_path, capfdbinary):
    (tmp_path / "a\x1b[2J.py").write_text(LINE)
    out = port(capfdbinary, ".")[1]
    expected = "a\\x1b[2J.py:1:1: equivalent: torch.cuda.synchronize -> get_accelerator().synchronize [cuda-synchronize]"
    assert "\x1b" not in out and expected in out


def test_rules_and_explain(capfdbinary):
    code, out, _ = port(capfdbinary, "--rules")
    assert code == 0 and any(line.split()[:2] == ["cuda-synchronize", "equivalent"] for line in out.splitlines())
    code, out, _ = port(capfdbinary, "--explain", "cuda-mem-get-info")
    assert code == 0 and "before:\n    free, total = torch.cuda.mem_get_info()" in out and "after:" in out
