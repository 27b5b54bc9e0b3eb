"""The profile page's numbers: recordings with known contents, and broken or hostile ones."""
import base64
import gzip
import json
import os
import pathlib
import random
import re
import subprocess
import sys

import pytest
from profiler_case import BASE, Recording, training

import anyaccel.profiler
from anyaccel.profiler.report import costs, main, process, summary

REPORT = pathlib.Path(anyaccel.profiler.__path__[0]) / "report"


def build(folder, **options):
    """Return (header of the page's data, columns, summary)."""
    text = main.build(folder, **options)
    page = (folder / "profile.html").read_text("utf-8")
    packed = re.search(r'<script id="data" type="application/octet-stream">([A-Za-z0-9+/=]*)</script>', page)[1]
    whole = gzip.decompress(base64.b64decode(packed))
    size = int.from_bytes(whole[:4], "little")
    data = json.loads(whole[4:4 + size])
    columns = {
        name:
        list(
            memoryview(whole)[4 + size + at:4 + size + at + count * {
                "f64": 8,
                "u32": 4,
                "i32": 4,
                "u8": 1
            }[kind]].cast({
                "f64": "d",
                "u32": "I",
                "i32": "i",
                "u8": "B"
            }[kind]))
        for name, (kind, at, count) in data["columns"].items()
    }
    return data, columns, text


def rules(data):
    return [s["rule"] for s in data["suggestions"]]


def by_name(data, columns, name):
    """Indices of the events with a name."""
    return [i for i, n in enumerate(columns["name"]) if data["strings"][n] == name]


def simple(folder, **process):
    """1000 µs: two kernels of 300 µs, launched by mm and gelu."""
    r = Recording(folder, **process)
    mm = r.host("aten::mm", 50, 40, shapes=[([64, 32], "float"), ([32, 16], "float")], line="a.py:1 in f")
    gelu = r.host("aten::gelu", 120, 30, shapes=[([64, 16], "float")], line="a.py:2 in f")
    r.kernel("gemm", 100, 300, mm)
    r.kernel("gelu", 600, 300, gelu)
    r.span(0, 1000)
    return r


# Fails if overlapping kernels count twice, or time outside of kernels counts as busy.
def test_busy_share_and_gaps(tmp_path):
    r = simple(tmp_path)
    r.kernel("other", 650, 100, stream=3)  # within the second kernel
    r.finish()
    data, columns, text = build(tmp_path)
    assert data["processes"][0]["span"] == 1_000_000
    assert data["processes"][0]["busy"] == 600_000
    # The 900 µs from the first kernel on count. The host may take long to start the first one.
    assert data["processes"][0]["device_span"] == 900_000
    assert "busy 67 %" in data["headline"] and "device busy 67 %" in text
    gaps = [(columns["begin"][i], columns["duration"][i]) for i, c in enumerate(columns["category"]) if c == 6]
    assert gaps == [(400_000, 200_000), (900_000, 100_000)]
    assert [t["label"] for t in data["tracks"] if t["kind"] == "stream"] == ["sim:0 stream 0", "sim:0 stream 3"]


# Fails if a kernel is not attributed to its op, or its rate is guessed.
def test_top_ops(tmp_path):
    simple(tmp_path, peak={"flops": {"float32": 1e9, "bfloat16": 2e9}, "bytes_per_second": 1e8}).finish()
    data, _, text = build(tmp_path)
    gelu, mm = data["ops"]
    for op, name in ((gelu, "aten::gelu"), (mm, "aten::mm")):
        assert (op["name"], op["calls"], op["time"], op["share"]) == (name, 1, 300_000, 0.5)
    assert mm["flops"] == pytest.approx(2 * 64 * 32 * 16 / 300e-6)
    assert mm["flops_peak"] == pytest.approx(mm["flops"] / 1e9)
    assert mm["bytes"] == pytest.approx(4 * (64 * 32 + 32 * 16 + 64 * 16) / 300e-6)
    assert gelu["flops"] is None and gelu["bytes"] == pytest.approx(2 * 64 * 16 * 4 / 300e-6)
    assert mm["lines"] == [["a.py:1 in f", 300_000]]
    assert "aten::mm" in text


# Fails if a few calls without shapes hide the rate of the others, or many do not.
@pytest.mark.parametrize("unknown, rate", [(60, 2 * 64 * 32 * 16 / 300e-6), (90, None)])
def test_calls_without_shapes(tmp_path, unknown, rate):
    r = simple(tmp_path)
    r.kernel("aten::mm.out", 910, unknown)
    r.finish()
    data, *_ = build(tmp_path)
    mm, = (op for op in data["ops"] if op["name"] == "aten::mm")
    assert (mm["calls"], mm["time"], mm["flops"]) == (2, 300_000 + unknown * 1000, pytest.approx(rate) if rate else None)


# Fails if a peak is assumed when none was measured.
def test_no_peak(tmp_path):
    simple(tmp_path).finish()
    data, _, text = build(tmp_path)
    assert all(op["flops_peak"] is None and op["bytes_peak"] is None for op in data["ops"])
    assert "of peak" not in text


# Fails if a rate above the measured peak, which nothing can reach, is shown as a precise share.
def test_above_the_peak(tmp_path):
    simple(tmp_path, peak={"flops": {"float32": 1e7}, "bytes_per_second": 1e8}).finish()
    data, _, text = build(tmp_path)
    assert data["ops"][1]["flops_peak"] > 20
    rows = [line for line in text.splitlines() if line.endswith(("aten::mm", "aten::gelu"))]
    assert [re.search(r"(?:> )?[\d.]+ % of peak", row)[0] for row in rows] == ["27 % of peak", "> 100 % of peak"]
    assert len({row.index("aten::") for row in rows}) == 1


# Fails if an op inside an op of the same name counts twice, or children's time is not subtracted.
def test_host_time_without_a_device(tmp_path):
    r = Recording(tmp_path, device_type="cpu", accelerator="cpu", device_name="cpu")
    r.host("aten::linear", 0, 100)
    r.host("aten::addmm", 10, 80, shapes=[([4], "float"), ([2, 3], "float"), ([3, 4], "float")])
    r.host("aten::addmm", 20, 60, shapes=[([4], "float"), ([2, 3], "float"), ([3, 4], "float")])
    r.span(0, 200)
    r.finish()
    data, _, text = build(tmp_path)
    assert [(op["name"], op["calls"], op["time"]) for op in data["ops"]] == [("aten::addmm", 1, 80_000),
                                                                             ("aten::linear", 1, 20_000)]
    assert data["ops"][0]["flops"] == pytest.approx(2 * 2 * 3 * 4 / 80e-6)
    assert "in ops 50 %" in text and not data["device"]


# Fails if an op that only calls another op seems to do all of the work in its own short time.
def test_rates_of_wrappers(tmp_path):
    r = Recording(tmp_path, device_type="cpu", accelerator="cpu", device_name="cpu",
                  peak={"flops": {}, "bytes_per_second": 1e9})
    shapes = [([1000], "float")]
    r.host("aten::relu", 0, 100, shapes=shapes)
    r.host("aten::clamp_min", 1, 98, shapes=shapes)
    # The calls without shapes take most of the time, so the rate is unknown.
    r.host("aten::exp", 200, 10, shapes=shapes)
    r.host("aten::exp", 300, 90)
    r.finish()
    data, *_ = build(tmp_path)
    ops = {op["name"]: op for op in data["ops"]}
    assert (ops["aten::relu"]["time"], ops["aten::relu"]["bytes"]) == (2000, pytest.approx(8000 / 100e-6))
    assert ops["aten::relu"]["bytes_peak"] == pytest.approx(0.08)
    assert ops["aten::exp"]["bytes"] is None


# Fails if the time of threads that run ops at the same time adds up to more than the recorded time.
@pytest.mark.parametrize("most", [process._MOST, 3])
def test_ops_of_several_threads(tmp_path, monkeypatch, most):
    monkeypatch.setattr(process, "_MOST", most)  # 3: the window is read in parts
    r = Recording(tmp_path, device_type="cpu", accelerator="cpu", device_name="cpu")
    for tid in range(100, 104):
        r.host("aten::mm", 0, 400, tid=tid)
        r.host("aten::mm", 500, 300 + tid, tid=tid)
    r.span(0, 1000)
    r.finish()
    data, _, text = build(tmp_path)
    assert data["processes"][0]["in_ops"] == 803_000 and "in ops 80 %" in text and "ops 80 %" in data["headline"]


# Fails if time counts again in a window because a range in it began, or a kernel before it ended,
# in another window.
@pytest.mark.parametrize("recorded", [False, True])
def test_events_across_windows(tmp_path, recorded):
    limits = [[BASE + 1_000_000 * n, BASE + 1_000_000 * (n + 1)] for n in range(3)] if recorded else []
    r = Recording(tmp_path, windows=limits)
    for n in range(3):
        r.kernel("work", 1000 * n, 950)
        r.kernel("tail", 1000 * n + 950, 100 if n < 2 else 50, stream=7)
        if n == 2:
            r.host("epoch", 0, 3000, cat="user_annotation")
            r.kernel("epoch", 0, 3000, cat="gpu_user_annotation")
        r.span(1000 * n, 1000 * (n + 1))
        r.window()
    r.finish()
    data, columns, text = build(tmp_path)
    one, = data["processes"]
    assert (one["span"], one["device_busy"], one["device_span"]) == (3_000_000, 3_000_000, 3_000_000)
    assert "3 ms: the device is busy 100 %" in data["headline"] and "3 ms, device busy 100 %" in text
    assert 6 not in columns["category"]


# Fails if a window without events does not count as recorded time, or its idle time is missing.
def test_empty_window(tmp_path):
    r = simple(tmp_path)
    r.window()
    r.span(1000, 3000)
    r.finish()
    data, columns, _ = build(tmp_path)
    assert (data["processes"][0]["span"], data["processes"][0]["busy"], data["last"]) == (3_000_000, 600_000, 3_000_000)
    gaps = [(columns["begin"][i], columns["duration"][i]) for i, c in enumerate(columns["category"]) if c == 6]
    assert (1_000_000, 2_000_000) in gaps


# Fails if a program that takes long to start looks as if its device were idle.
@pytest.mark.parametrize("windows", [1, 2])
def test_long_start(tmp_path, windows):
    r = Recording(tmp_path)
    r.kernel("copy of the weights", 10, 5)
    if windows == 2:
        r.span(0, 5000)
        r.window()
    r.kernel("work", 5100, 400)
    r.kernel("work", 5600, 400)
    r.span(5000 if windows == 2 else 0, 6000)
    r.finish()
    data, _, text = build(tmp_path)
    assert (data["processes"][0]["device_busy"], data["processes"][0]["device_span"]) == (800_000, 900_000)
    assert "device busy 89 %" in text and "busy 89 %" in data["headline"] and "device-idle" not in rules(data)


# Fails if ops of a program on a device whose work was not recorded have no calls.
def test_device_without_kernels(tmp_path):
    r = Recording(tmp_path)
    r.host("aten::mm", 0, 100, shapes=[([2, 3], "float"), ([3, 4], "float")], line="a.py:1 in f")
    r.finish()
    data, _, text = build(tmp_path)
    op, = data["ops"]
    assert (op["name"], op["calls"], op["time"], op["lines"]) == ("aten::mm", 1, 100_000, [["a.py:1 in f", 100_000]])
    assert not data["device"] and "in ops 100 %" in text


# Fails if the parts of a window that is too large for memory count as several windows.
def test_very_large_window(tmp_path, monkeypatch):
    r = simple(tmp_path)
    for i in range(50):
        r.host("aten::add", 10 + 2 * i, 1)
    r.finish()
    before, *_ = build(tmp_path)
    monkeypatch.setattr(process, "_MOST", 20)
    after, *_ = build(tmp_path)
    for key in ("span", "busy", "windows"):
        assert before["processes"][0][key] == after["processes"][0][key], key


# Fails if the peak, its tensors or their places are wrong.
def test_memory(tmp_path):
    r = Recording(tmp_path)
    r.host("forward", 0, 500, cat="user_annotation")
    r.host("aten::addmm", 10, 100, line="m.py:7 in forward")
    r.host("aten::empty", 20, 20)
    r.memory(30, 1, 4000, 5000)
    r.host("aten::relu", 200, 100, line="m.py:9 in forward")
    r.memory(210, 2, 2000, 7000)
    r.memory(300, 1, -4000, 3000)
    r.window()
    r.memory(600, 3, 3500, 6500)
    r.finish()
    data, _, text = build(tmp_path)
    memory, = data["processes"][0]["memories"]
    assert (memory["label"], memory["peak"], memory["peak_time"], memory["before"]) == ("sim:0 memory", 7000, 210_000, 1000)
    assert memory["largest"] == [{
        "bytes": 4000,
        "time": 30_000,
        "op": "aten::addmm",
        "ranges": "forward",
        "line": "m.py:7 in forward"
    }, {
        "bytes": 2000,
        "time": 210_000,
        "op": "aten::relu",
        "ranges": "forward",
        "line": "m.py:9 in forward"
    }]
    assert memory["values"] == [5000, 7000, 3000, 6500]
    assert "m.py:7 in forward" in text


# Fails if ops of a backward pass lose the line of their forward op.
def test_lines_of_backward(tmp_path):
    r = Recording(tmp_path)
    r.host("aten::mm", 10, 10, line="m.py:3 in g", **{"Sequence number": 5, "Fwd thread id": 0})
    backward = {"Sequence number": 5, "Fwd thread id": 1}
    r.host("autograd::engine::evaluate_function: MmBackward0", 50, 20, tid=7, **backward)
    r.host("aten::mm", 55, 10, tid=7)
    r.finish()
    data, columns, _ = build(tmp_path)
    lines = [data["strings"][columns["line"][i]] for i in by_name(data, columns, "aten::mm")]
    assert sorted(lines) == ["backward of m.py:3 in g", "m.py:3 in g"]


# Fails if ops that begin during an asynchronous collective look as if they were inside of it.
def test_asynchronous_ops(tmp_path):
    r = Recording(tmp_path)
    r.host("hook", 0, 50)
    r.host("c10d::allreduce_", 10, 400)
    r.host("c10d::allreduce_", 20, 500)
    mm = r.host("aten::mm", 100, 20)
    r.kernel("gemm", 110, 100, mm)
    r.span(0, 1000)
    r.finish()
    data, columns, _ = build(tmp_path)
    assert (data["processes"][0]["collective"], data["processes"][0]["compute"]) == (510_000, 100_000)
    assert "exposed-collectives" in rules(data)  # 410 of 1000 µs
    rows = {i: (data["tracks"][columns["track"][i]]["label"], columns["depth"][i]) for i in range(len(columns["track"]))}
    assert sorted(rows[i] for i in by_name(data, columns, "c10d::allreduce_")) == [("thread 100 asynchronous", 0),
                                                                                   ("thread 100 asynchronous", 1)]
    assert [rows[i] for i in by_name(data, columns, "aten::mm")] == [("thread 100", 0)]
    assert data["processes"][0]["in_ops"] == 70_000


# Fails if a problem that the checker found is not on the timeline, or at an op of another line.
@pytest.mark.parametrize("line, time", [('File "/home/me/lib/a.py", line 2 in f', 120_000),
                                        ('File "/home/me/lib/a.py", line 3 in f', None), ("a.py:1 in f", 50_000),
                                        ('File "/home/me/lib/aa.py", line 2 in f', None), ("main() + 0x12 (program)", None),
                                        ("", None)])
def test_checker_findings(tmp_path, line, time):
    r = simple(tmp_path).finish()
    problem = {"kind": "unordered_streams", "what": "two streams", "op": "aten::gelu", "line": line, "seen": 2, "remedy": "wait"}
    (r.folder / "findings.json").write_text(json.dumps({"tool": "anyaccel sim check", "version": 1, "problems": [problem]}))
    data, columns, text = build(tmp_path)
    found, = data["findings"]
    assert (found["kind"], found["time"], found["seen"]) == ("unordered_streams", time, 2)
    marks = [columns["begin"][i] for i in by_name(data, columns, "checker: unordered_streams")]
    assert marks == ([] if time is None else [time]) and "The checker found 1 problem" in text


# Fails if a process on another host is not moved to rank 0's clock.
def test_clock_offsets(tmp_path):
    simple(tmp_path, rank=0, pid=1).finish()
    r = simple(tmp_path, rank=1, pid=2, start_ns=BASE - 5_000_000, clock_offset_ns=5_000_000)
    r.finish()
    data, columns, _ = build(tmp_path)
    begins = [columns["begin"][i] for i in by_name(data, columns, "gemm")]
    assert begins == [100_000, 5_100_000]
    trace = json.load(gzip.open(tmp_path / "trace.json.gz"))
    assert sorted(e["ts"] for e in trace["traceEvents"] if e["name"] == "gemm") == [100, 5100]


# Fails if Perfetto could not tell the ranks apart or counters and arrows are lost.
def test_merged_trace(tmp_path):
    training(tmp_path, steps=3, layers=1)
    events = json.load(gzip.open(tmp_path / "trace.json.gz"))["traceEvents"] if build(tmp_path) else []
    meta = [(e["name"], e["pid"]) for e in events if e["ph"] == "M" and e["name"] in ("process_name", "process_sort_index")]
    assert sorted(meta) == [("process_name", 0), ("process_name", 1), ("process_sort_index", 0), ("process_sort_index", 1)]
    assert {e["pid"] for e in events} == {0, 1}
    assert all(isinstance(e["pid"], int) and ("tid" not in e or isinstance(e["tid"], int)) for e in events)
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} <= set(threads)
    assert "sim:0 stream 7" in threads.values()
    assert any(e["ph"] == "C" and e["name"] == "memory sim:0" for e in events)


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


# Fails if names from the program can end the script or add markup.
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


# Fails if a killed process looks like one that exited.
def test_killed_process(tmp_path):
    simple(tmp_path, end_ns=None, exit={"kind": "running", "detail": ""}).finish()
    data, _, text = build(tmp_path)
    assert data["processes"][0]["state"] == "ended without notice; last window at 1 ms"
    assert "ended without notice; last window at 1 ms" in text


# Fails if the states of processes are mixed up, or a process without windows disturbs the others.
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


# Fails if a folder without a recording gives a stack trace or no hint.
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
    assert costs.cost("my::op", {"flops": 12}) == (12, None)
    assert costs.cost("aten::mm", {"Input Dims": "x", "Input type": [1]}) == (None, None)
