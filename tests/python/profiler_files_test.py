"""Profile pages of broken, hostile or very large recordings, and the report's outputs."""
import gzip
import json
import os
import pathlib
import random
import re
import subprocess
import sys

import pytest
from profiler_case import Recording, build, by_name, simple, training

import anyaccel.profiler
from anyaccel.profiler.report import costs, main, process, summary
from anyaccel.profiler.report.events import Window

REPORT = pathlib.Path(anyaccel.profiler.__path__[0]) / "report"


# Fails if a broken window, lines file or process.json stops the report or is not mentioned.
def test_broken_files(tmp_path):
    r = simple(tmp_path)
    good = r.window()
    whole = good.read_bytes()
    (r.folder / "window-0002.json.gz").write_bytes(whole[:len(whole) * 2 // 3])
    (r.folder / "window-0003.json.gz").write_bytes(b"not gzip")
    (r.folder / "window-0004.json.gz").write_bytes(
        gzip.compress(b'{"traceEvents": [{"ph": "X", "ts": "x", "cat": "kernel"}, {"ph": "X", '))
    (r.folder / "window-0005.json.gz").write_bytes(gzip.compress(b'[1, 2]'))
    (r.folder / "window-0006.json.gz").write_bytes(b"")
    (r.folder / "lines-0002.json.gz").write_bytes(gzip.compress(b'{"frames": 3}'))
    (r.folder / "process.json").write_text('{"rank": ')
    (r.folder / "findings.json").write_text("[")
    data, _, text = build(tmp_path)
    named = "\n".join(data["problems"])
    for name in ("window-0002", "window-0003", "window-0004", "window-0005", "window-0006", "lines-0002", "process.json",
                 "findings.json"):
        assert name in named, name
    assert "window-0001" not in named
    assert any(op["name"] == "aten::mm" for op in data["ops"])
    assert "not read completely" in text


# Fails if packed ops have the wrong times, names or numbers, if a truncated file
# loses more than its last event, or if a damaged one raises an exception.
def test_packed_ops(tmp_path):
    kinds = [["autograd::engine::evaluate_function: MmBackward0", [], [], 0], ["MmBackward0", [[2, 2]], ["float"], 1],
             ["aten::mm", [[2, 3], [3, 2]], ["float", "float"], 0]]
    packed = [{"ph": "ops", "tid": 7, "logical": 1, "kinds": kinds[2:], "rows": [0, 1000, 5000, 4]},
              {"ph": "ops", "tid": 7, "logical": 1, "kinds": kinds[:2], "rows": [1, 9000, 3000, -1, 2, 500, 2000, 4]}]
    whole = json.dumps({"baseTimeNanoseconds": 5, "traceEvents": packed})
    path = tmp_path / "window-0001.json"
    path.write_text(whole)
    ops = {event["name"].split()[-1] + event["ph"]: event for event in reversed(list(Window(path)))}
    assert [(op["ts"], op["dur"]) for op in (ops["aten::mmX"], ops["MmBackward0X"])] == [(1, 5), (10, 3)]
    assert ops["aten::mmX"]["args"]["Input Dims"] == [[2, 3], [3, 2]] and ops["aten::mmX"]["args"]["Fwd thread id"] == 0
    assert ops["MmBackward0X"]["args"]["Sequence number"] == 4 and ops["MmBackward0X"]["args"]["Fwd thread id"] == 1
    assert (ops["fwdbwds"]["ts"], ops["fwdbwdf"]["ts"]) == (1, 10.5)
    path.write_text(whole[:-10])
    window = Window(path)
    assert [event["name"] for event in window] == ["aten::mm"] and window.error
    for damage in ('"rows": 3',
                   '"rows": [9, 0, 0, 0]', '"rows": [0, "x", 0, 0]', '"rows": [0, 1e400, 0, 0]', '"rows": [0, 0, 0, {}]'):
        path.write_text(re.sub(r'"rows": \[0[^]]*\]', damage, whole))
        window = Window(path)
        assert "MmBackward0" in [event["name"] for event in window], damage
        assert ("unreadable ops" in window.error) == ("1e400" not in damage), damage
    memory = {"ph": "memory", "tid": 7, "rows": [1000, 64, 8, 8, 9, 0, -1, 500, 64, -8, 0, 9, 0, -1]}
    path.write_text(json.dumps({"traceEvents": [memory, dict(memory, rows=[1, 2])]}))
    window = Window(path)
    assert [(event["ts"], event["args"]["Bytes"]) for event in window] == [(1, 8), (1.5, -8)]
    assert "unreadable memory" in window.error


# Fails if bytes that a crash left behind raise an exception.
def test_random_damage(tmp_path):
    r = simple(tmp_path)
    r.host("range", 1, 2, cat="user_annotation")
    r.memory(3, 1, 10, 10)
    path = r.finish().folder / "window-0001.json.gz"
    whole, noise = gzip.decompress(path.read_bytes()), random.Random(4)
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(noise.randint(1, 8)):
            at = noise.randrange(len(damaged))
            damaged[at:at + noise.randint(0, 6)] = bytes(
                noise.choice(b'{}[],:"0123456789eE.-ntf\xff') for _ in range(noise.randint(0, 6)))
        path.write_bytes(gzip.compress(bytes(damaged), 1))
        main.build(tmp_path)


# Fails if names from the program can close the script element or add markup.
def test_hostile_names(tmp_path):
    evil = '</script><img src=x onerror="alert(1)">\u2028"\\'
    r = simple(tmp_path, argv=["python3", evil], device_name=evil, host=evil)
    r.host(evil, 300, 10, cat="user_annotation", line=None)
    r.host("aten::add", 320, 10, line=evil)
    r.finish()
    data, columns, text = build(tmp_path)
    page = (tmp_path / "profile.html").read_text("utf-8")
    assert evil in data["strings"] and by_name(data, columns, evil)
    assert "<img" not in page and page.count("</script>") == 2
    assert "\u2028" not in text and max(map(len, text.splitlines()[:-1])) <= 80


# Fails if the page loads anything, or its policy does not cover its own script.
def test_page_is_self_contained(tmp_path):
    simple(tmp_path).finish()
    build(tmp_path)
    page = (tmp_path / "profile.html").read_text("utf-8")
    assert "default-src 'none'" in page and "unsafe" not in page
    assert not re.search(r"""(src|href)=|url\(|@import|fetch\(|XMLHttpRequest|https?://""", page)


# Fails if the page grows with the recording, or drops long events before short ones.
def test_limit(tmp_path):
    r = Recording(tmp_path)
    for i in range(5000):
        r.host("aten::add", 10 * i, 1 + (i % 100) / 20)
    r.host("aten::mm", 60000, 500)
    r.finish()
    data, columns, _ = build(tmp_path, limit=500)
    assert len(columns["begin"]) == 500 and data["dropped"] == 5001 - 500
    assert by_name(data, columns, "aten::mm") and min(columns["duration"]) >= 5400
    assert data["events"] == 5001
    assert sum(p["in_ops"] for p in data["processes"]) == sum(1000 + (i % 100) * 50
                                                              for i in range(5000)) + 500_000  # totals include dropped events


# Fails if a killed process is shown as one that exited.
def test_killed_process(tmp_path):
    simple(tmp_path, end_ns=None, exit={"kind": "running", "detail": ""}).finish()
    data, _, text = build(tmp_path)
    assert data["processes"][0]["state"] == "ended without notice; last window at 1 ms"
    assert "ended without notice; last window at 1 ms" in text


# Fails if the states of processes are confused, or a process without windows affects the others.
def test_other_ends(tmp_path):
    simple(tmp_path, rank=0, pid=1, exit={"kind": "exception", "detail": "ValueError: x"}).finish()
    Recording(tmp_path, rank=None, pid=2, exit={"kind": "fork", "detail": "forked children are not recorded"}).finish()
    Recording(tmp_path, rank=None, pid=3, end_ns=None, exit={"kind": "running", "detail": ""}).finish()
    data, _, _ = build(tmp_path)
    assert [p["state"] for p in data["processes"]] == [
        "ended with an exception: ValueError: x", "forked children are not recorded", "ended without notice; nothing was recorded"
    ]
    assert len(data["problems"]) == 1


# Fails if the summary is too long to read, or has no path.
def test_summary_size(tmp_path):
    training(tmp_path, steps=3, layers=2, ranks=8)
    _, _, text = build(tmp_path)
    lines = text.splitlines()
    assert len(lines) <= 40 and max(map(len, lines[:-1])) <= 80  # the last line is a path
    assert lines[-1].endswith("profile.html") and (tmp_path / "summary.txt").read_text("utf-8") == text


# Fails if a summary of about 40 lines loses its last line, the page's path.
@pytest.mark.parametrize("rows", [34, 35, 36])
def test_summary_of_40_lines(monkeypatch, rows):
    row = {"name": "aten::mm", "calls": 1, "time": 1, "share": 0.1, "flops": None, "bytes": None, "flops_peak": None,
           "bytes_peak": None}
    monkeypatch.setattr(summary, "top_ops", lambda processes: [row] * rows)
    lines = summary.summary([], [], [], 0, "profile.html").splitlines()
    assert len(lines) == min(40, rows + 5) and lines[-1] == "Page: profile.html"


# Fails if a folder whose name is not UTF-8 gets no page or no summary.
def test_folder_with_another_encoding(tmp_path, capsys):
    folder = tmp_path / os.fsdecode(b"\xe9t\xe9")
    folder.mkdir()
    simple(folder).finish()
    assert main.main([str(folder)]) == 0
    assert "Page: " in (folder / "summary.txt").read_text("utf-8") and (folder / "profile.html").exists()
    assert "Page: " in capsys.readouterr().out


# Fails if a folder without a recording causes a stack trace, or an error without a hint.
def test_no_recording(tmp_path, capsys):
    assert main.main([str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("anyaccel profile: cannot build a profile page") and "anyaccel profile -o DIR" in error and error.count(
        "\n") == 1


# Fails if the report imports torch, which a machine that only shows results may lack.
def test_without_torch(tmp_path):
    simple(tmp_path).finish()
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "torch.py").write_text("raise ImportError('torch was imported')")
    environment = {**os.environ, "PYTHONPATH": f"{blocked}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    for command in ([str(REPORT)], ["-m", "anyaccel.profiler"]):
        (tmp_path / "profile.html").unlink(missing_ok=True)
        done = subprocess.run([sys.executable, *command, str(tmp_path)], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "profile.html").exists() and "busy 67 %" in done.stdout


# Fails if a cost formula is wrong, or an unknown op gets one.
def test_costs():

    def cost(name, *tensors):
        return costs.cost(name, {"Input Dims": [list(s) for s, _ in tensors], "Input type": [t for _, t in tensors]})

    half = "c10::BFloat16"
    assert cost("aten::bmm", ((5, 2, 3), half), ((5, 3, 4), half)) == (2 * 5 * 2 * 3 * 4, 2 * 5 * (6 + 12 + 8))
    assert cost("aten::add", ((10, 4), "float"), ((4, ), "float"), ((), "Scalar")) == (None, 160 + 160 + 16)
    assert cost("aten::copy_", ((8, ), half), ((8, ), "float")) == (None, 16 + 32)
    assert cost("aten::mm", ((2, 3), "float"), ((4, 5), "float")) == (None, None)
    assert cost("aten::mm", ((2, 3), "float")) == (None, None)
    assert cost("my::op", ((2, 3), "float")) == (None, None)
    assert costs.cost("my::op", {}) == (None, None)
    assert costs.cost("aten::mm", {"Input Dims": "x", "Input type": [1]}) == (None, None)
