"""The profile page's numbers, from recordings with known contents."""
import gzip
import json
import re

import pytest
from profiler_case import BASE, Recording, build, by_name, rules, simple, training

from anyaccel.profiler.report import process


# Fails if overlapping kernels count twice, or time outside of kernels counts as busy.
def test_busy_share_and_gaps(tmp_path):
    r = simple(tmp_path)
    r.kernel("other", 650, 100, stream=3)  # within the second kernel
    r.finish()
    data, columns, text = build(tmp_path)
    assert data["processes"][0]["span"] == 1_000_000
    assert data["processes"][0]["busy"] == 600_000
    # The 900 µs from the first kernel on count. The host may take a long time to start the first
    # one.
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


# Fails if the rate of an op that only calls another op is computed from its own time, which
# excludes the other op.
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
    monkeypatch.setattr(process, "_MOST", most)  # with 3, the window is read in parts
    r = Recording(tmp_path, device_type="cpu", accelerator="cpu", device_name="cpu")
    for tid in range(100, 104):
        r.host("aten::mm", 0, 400, tid=tid)
        r.host("aten::mm", 500, 300 + tid, tid=tid)
    r.span(0, 1000)
    r.finish()
    data, _, text = build(tmp_path)
    assert data["processes"][0]["in_ops"] == 803_000 and "in ops 80 %" in text and "ops 80 %" in data["headline"]


# Fails if time is counted twice because a range began in an earlier window, or a kernel ended in a
# later one.
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


# Fails if the time that a program takes to start counts as idle time of the device.
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


# Fails if ops that begin during an asynchronous collective are shown as nested in the collective.
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


# Fails if a problem that the checker found is not on the timeline, or is shown at an op of a
# different line.
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
