"""`anyaccel port`: which files it examines, and how it writes them."""
import codecs
import errno
import os
import re
import shutil
import stat
import tempfile

import pytest
from port_command import FINDER, git, port, use_finder

from anyaccel_port import keywords, languages, pool, rules, source

LINE = "torch.cuda.synchronize()\n"
FIXED = "get_accelerator().synchronize()\n"


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    use_finder(monkeypatch)
    monkeypatch.chdir(tmp_path)


def write(path, text=LINE):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def found(out):
    return sorted({line.split(":")[0] for line in out.splitlines() if "[cuda-" in line})


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


# Fails if git-ignored files are examined, or new files that git does not ignore are not.
@needs_git
def test_files_that_git_ignores(tmp_path, capfdbinary):
    git(tmp_path, "init", "-q")
    write(tmp_path / ".gitignore", "ignored/\n")
    for name in ("a.py", "ignored/b.py", "sub/c.py", "deleted.py"):
        write(tmp_path / name)
    git(tmp_path, "add", "-A")
    os.unlink(tmp_path / "deleted.py")
    write(tmp_path / "new.py")
    assert found(port(capfdbinary, ".")[1]) == ["a.py", "new.py", "sub/c.py"]
    # An ignored folder that the user names is examined.
    assert found(port(capfdbinary, "ignored")[1]) == ["ignored/b.py"]


# Fails if a loop of links is followed, a file is examined twice, or a fifo blocks the command.
def test_links_and_special_files(tmp_path, capfdbinary):
    write(tmp_path / "a/a.py")
    (tmp_path / "a/loop").symlink_to(tmp_path / "a")
    (tmp_path / "a/self.py").symlink_to("self.py")
    (tmp_path / "a/same.py").symlink_to("a.py")
    os.mkfifo(tmp_path / "a/fifo.py")
    code, out, err = port(capfdbinary, "a", "a/a.py", "a/same.py")
    assert (code, err, found(out)) == (0, "", ["a/a.py"])


# Fails if one of these files is parsed, or if it is not reported.
@pytest.mark.parametrize("name, data, reason", [
    ("binary.py", LINE.encode() + b"\0" * 10, "a binary file"),
    ("long.py", LINE.encode() + b"x = '" + b"a" * 200_000 + b"'\n", "a line is longer than 100000 bytes"),
    ("large.py", LINE.encode() * 200_000, "larger than 4194304 bytes"),
])
def test_skipped_files(tmp_path, capfdbinary, name, data, reason):
    write(tmp_path / name, data)
    code, out, _ = port(capfdbinary, "--fix", ".")
    assert code == 0 and f"{name}: skipped: {reason}" in out
    assert (tmp_path / name).read_bytes() == data


# Fails if a pattern excludes the wrong files.
def test_exclude(tmp_path, capfdbinary):
    for name in ("a.py", "third_party/b.py", "src/third_party/c.py", "src/d_pb2.py", "build/x/e.py", "src/build/f.py"):
        write(tmp_path / name)
    words = ("--exclude", "third_party", "--exclude", "*_pb2.py", "--exclude", "build/", "--exclude", "src/build", ".")
    assert found(port(capfdbinary, *words)[1]) == ["a.py"]
    assert found(port(capfdbinary, "--exclude", "src/*.py", ".")[1]) == ["a.py", "build/x/e.py", "third_party/b.py"]


# Fails if a file that is named on the command line is silently left out.
def test_unknown_and_missing_files(tmp_path, capfdbinary):
    write(tmp_path / "notes.txt")
    code, out, _ = port(capfdbinary, "notes.txt")
    assert code == 0 and "notes.txt: skipped: an unknown kind of file" in out
    code, _, err = port(capfdbinary, "no-such-file\x1b.py")
    assert code == 2 and 'no such file or folder: "no-such-file\\x1b.py"' in err


@pytest.mark.parametrize("name, first, expected", [("a.py", "", "python"), ("a.PYI", "", "python"),
                                                   ("tool", "#!/usr/bin/env python3\n", "python"),
                                                   ("run", "#!/bin/bash -e\n", "shell"), ("data", "some text\n", None),
                                                   ("a.ipynb", "", "notebook"), ("k.cu", "", "cpp"), ("k.hpp", "", "cpp"),
                                                   ("CMakeLists.txt", "", "cmake"), ("x.cmake", "", "cmake"),
                                                   ("Dockerfile.gpu", "", "shell"), ("Makefile", "", "shell"),
                                                   ("c.yml", "", "config"), ("c.json", "", "json"),
                                                   ("requirements-gpu.txt", "", "requirements"),
                                                   ("environment.yml", "", "requirements"), ("pyproject.toml", "", "requirements"),
                                                   ("requirements/base.txt", "", "requirements"), ("a.md", "", None),
                                                   ("a.txt", "", None)])
def test_languages(tmp_path, name, first, expected):
    language = languages.language_of(str(write(tmp_path / name, first)))
    assert (language and language.name) == expected


# Fails if an encoding, a byte order mark, or a kind of newline is not kept.
@pytest.mark.parametrize("name, data", [
    ("a.py", "# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1") + LINE.encode()),
    ("a.py", codecs.BOM_UTF8 + "x = 'é'\n".encode() + LINE.encode()),
    ("a.py", LINE.replace("\n", "\r\n").encode() * 2),
    ("a.py", (LINE + "x = 1\r\n" + LINE).encode()),
    ("a.py", LINE.strip().encode()),
    ("a.cu", b"// \xe9\xff\n" + LINE.encode()),
    ("a.cu", "// \u2028 \x0c\n".encode() + LINE.encode()),
])
def test_bytes_are_kept(tmp_path, capfdbinary, name, data):
    write(tmp_path / name, data)
    assert port(capfdbinary, "--fix", ".")[0] == 0
    assert (tmp_path / name).read_bytes() == data.replace(b"torch.cuda.", b"get_accelerator().")


# Fails if a new line in a file with Windows newlines ends differently from the others.
def test_new_lines_end_like_the_others():
    assert source.decode(b"a\r\nb\r\n", True).with_own_newlines("a\nnew\r\nb\r\n") == "a\r\nnew\r\nb\r\n"
    assert source.decode(b"a\r\nb\n", True).with_own_newlines("a\nnew\r\nb\n") == "a\nnew\r\nb\n"


# Fails if a broken source is changed, stops the other files, or does not fail --check.
@pytest.mark.parametrize(
    "data, message", [(b"x\ncuda BROKEN\n", "bad.py:2: broken source, not changed: unexpected word BROKEN"),
                      (LINE.encode() + b"'\xff'\n", "bad.py:2: broken source, not changed: the file is not valid utf-8"),
                      (b"# coding: nonsense\n" + LINE.encode(), "bad.py:1: broken source, not changed: the encoding is invalid")])
def test_broken_sources(tmp_path, capfdbinary, data, message):
    write(tmp_path / "bad.py", data)
    write(tmp_path / "good.py")
    code, out, _ = port(capfdbinary, "--fix", ".")
    assert code == 0 and message in out, out
    assert (tmp_path / "bad.py").read_bytes() == data and (tmp_path / "good.py").read_text() == FIXED
    assert port(capfdbinary, "--check", ".")[0] == 1


# Fails if the crash of a parser stops the command or loses the findings of other files.
def test_crash_of_a_parser(tmp_path, capfdbinary):
    write(tmp_path / "crash.py", "cuda CRASH\n")
    for number in range(20):
        write(tmp_path / f"good{number:02}.py")
    code, out, _ = port(capfdbinary, "--check", "--jobs", "2", ".")
    assert code == 1 and "crash.py: broken source, not changed: the parser crashed" in out
    assert len(found(out)) == 20


# Fails if a file whose analysis never ends blocks the command, also while native code runs.
def test_endless_analysis(tmp_path, capfdbinary, monkeypatch):
    def find(text, file, target):
        return re.match("(a*)*$", text) if "endless" in file else FINDER.find(text, file, target)

    use_finder(monkeypatch, type("Finder", (), {"find": staticmethod(find), "fix": staticmethod(FINDER.fix)}))
    monkeypatch.setattr(pool, "_SECONDS", 0.3)
    write(tmp_path / "endless.py", "a" * 60 + "cuda")
    for number in range(5):
        write(tmp_path / f"good{number}.py")
    code, out, _ = port(capfdbinary, "--check", "--jobs", "2", ".")
    assert code == 1 and "endless.py: broken source, not changed: the analysis took longer than 0.3 s" in out
    assert len(found(out)) == 5


# Fails if a fixed file loses its permissions, or if a link is replaced by a file.
def test_permissions_and_links(tmp_path, capfdbinary):
    target = write(tmp_path / "elsewhere/tool.py")
    target.chmod(0o751)
    (tmp_path / "link.py").symlink_to(target)
    assert port(capfdbinary, "--fix", "link.py")[0] == 0
    assert (tmp_path / "link.py").is_symlink() and target.read_text() == FIXED
    assert stat.S_IMODE(target.stat().st_mode) == 0o751
    assert os.listdir(tmp_path / "elsewhere") == ["tool.py"]


# Fails if a read-only file is replaced, or if it keeps other files from being fixed.
def test_read_only_files(tmp_path, capfdbinary):
    write(tmp_path / "read_only.py").chmod(0o444)
    write(tmp_path / "other.py")
    code, out, err = port(capfdbinary, "--fix", ".")
    assert code == 1 and '"read_only.py" was not changed: the file is read-only' in err
    assert (tmp_path / "read_only.py").read_text() == LINE and (tmp_path / "other.py").read_text() == FIXED
    assert "1 finding fixed" in out and "1 finding left" in out


# Fails if a tree to which nothing can be written stops the command or has no message.
def test_read_only_tree(tmp_path, capfdbinary, monkeypatch):

    def refuse(**_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    write(tmp_path / "tree/a.py")
    code, out, err = port(capfdbinary, "--fix", "tree")
    assert code == 1 and '"tree/a.py" was not changed: Read-only file system' in err and "0 findings fixed" in out


# Fails if uncommitted work can be overwritten without --force.
@needs_git
def test_uncommitted_changes(tmp_path, capfdbinary):
    git(tmp_path, "init", "-q")
    write(tmp_path / "a.py")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    write(tmp_path / "a.py", LINE + "# more\n")
    code, out, err = port(capfdbinary, "--fix", ".")
    assert code == 1 and out == "" and 'has uncommitted changes ("a.py")' in err and "--force" in err
    assert (tmp_path / "a.py").read_text() == LINE + "# more\n"
    assert port(capfdbinary, "--diff", ".")[0] == 0  # changes nothing
    assert port(capfdbinary, "--fix", "--force", ".")[0] == 0
    assert (tmp_path / "a.py").read_text() == FIXED + "# more\n"
    git(tmp_path, "commit", "-qam", "second")
    write(tmp_path / "b.py")
    assert port(capfdbinary, "--fix", "b.py")[0] == 1  # a new file, whose content git does not have
    assert port(capfdbinary, "--fix", "a.py")[0] == 0
    os.unlink(tmp_path / "b.py")
    write(tmp_path / "a.py")
    git(tmp_path, "commit", "-qam", "third")
    assert port(capfdbinary, "--fix", ".")[0] == 0
    assert (tmp_path / "a.py").read_text() == FIXED


# Fails if a repository's settings can run a program.
@needs_git
def test_settings_of_a_repository_run_nothing(tmp_path, capfdbinary):
    git(tmp_path, "init", "-q")
    write(tmp_path / "a.py")
    git(tmp_path, "config", "core.fsmonitor", f"touch {tmp_path}/ran; false")
    port(capfdbinary, "--fix", ".")
    assert not (tmp_path / "ran").exists()


# Fails if a rule's example is not parsed, because the filter does not know one of its words.
@pytest.mark.parametrize("rule", [rule for rule in rules.RULES if rule.before and rule.id != "device-index-bare"],
                         ids=lambda rule: rule.id)
def test_the_filter_passes_what_rules_match(rule):
    prefix = rule.names[0].partition(":")[0]
    language = {"c++": languages.CPP, "cmake": languages.CMAKE, "shell": languages.SHELL}.get(prefix, languages.PYTHON)
    assert keywords.may_match(rule.before.encode(), language)


def test_the_filter_stops_other_files():
    assert not keywords.may_match(b"import torch\n\n\ndef forward(self, x):\n    return self.linear(x).to(x.device)\n")
    assert not keywords.may_match(b"// The common command.\nint main() { std::cout << 1; }\n", languages.CPP)
