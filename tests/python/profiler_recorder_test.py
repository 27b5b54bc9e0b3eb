"""Tests of the recorder of `anyaccel profile`: programs that record themselves, and its arithmetic."""
import collections
import json
import signal

from anyaccel.profiler import clocks, peak
from profiler_recording import record


# Fails if ops of a thread, backward ops, allocations, ranges or lines are missing, or if NVTX
# functions raise an exception because there is no CUDA.
def test_contents():
    (one,), done = record("""
        import threading
        import torch
        from anyaccel import get_accelerator

        def other():
            torch.ones(5).tan()

        x = torch.ones(1000, requires_grad=True)
        with torch.profiler.record_function("a \\"range\\""):
            y = x.sin()
        torch.cuda.nvtx.range_push("pushed")
        y.sum().backward()
        torch.cuda.nvtx.range_pop()
        with torch.cuda.nvtx.range("with {}", 3):
            pass
        torch.cuda.nvtx.mark("marked")
        torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start("started"))
        get_accelerator().range_push("of the accelerator")
        get_accelerator().range_pop()
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        print(thread.native_id)
        """)
    assert {"aten::sin", "aten::tan", "aten::sum"} <= one.names("cpu_op"), done.stderr
    assert any("SinBackward" in name for name in one.names("cpu_op"))
    assert one.names("user_annotation") >= {'a "range"', "pushed", "with 3", "marked", "started", "of the accelerator"}
    (tan,) = one.events(name="aten::tan")
    assert tan["tid"] == int(done.stdout) != one.process["pid"] and tan["args"]["Input Dims"] == [[5]]
    assert one.frames() >= {"program.py:6 in other", "program.py:8 in <module>", "program.py:10 in <module>"}, one.frames()
    assert any(event["args"]["Bytes"] == 4000 for event in one.events(name="[memory]"))
    assert one.process["exit"] == {"kind": "exit", "detail": ""} and one.process["end_ns"] > one.process["start_ns"]
    assert not one.leftovers and done.stderr == ""


# Fails if the recorder describes an op differently than torch's profiler does: its name, the shapes
# and types of its inputs, the numbers that connect forward and backward ops, or the arrows.
def test_ops_equal_those_of_torch():
    (one,), done = record("""
        import json
        import torch
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5))
        optimizer = torch.optim.AdamW(model.parameters())
        x = torch.randn(2, 3, 8, 8)

        def work():
            loss = torch.nn.functional.cross_entropy(model(x), torch.tensor([1, 2]))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            torch.cat([x, x]).to(torch.bfloat16)[0:1, ..., ::2].sum([0, 1])
            x.to_sparse().to_dense()
            torch.nested.nested_tensor([x[0], x[1]], layout=torch.strided).sin()
            x[0, 0].clone().index_put_([torch.tensor([1])], torch.tensor(1.0))

        work()
        with torch.profiler.record_function("recorded"):
            work()
        with torch.profiler.profile(record_shapes=True) as profiler:
            work()
        profiler.export_chrome_trace("torch.json")
        print(open("torch.json").read())
        """, ANYACCEL_PROFILE_WINDOW="1000")
    (recorded,) = one.events(name="recorded")
    begin, end = recorded["ts"], recorded["ts"] + recorded["dur"]
    ours = [event for event in one.events() if begin <= event.get("ts", -1) <= end]
    theirs = json.loads(done.stdout)["traceEvents"]

    def ops(events):
        keys = ("Input Dims", "Input type", "Fwd thread id")
        found = [(event["name"], event["args"]) for event in events if event.get("cat") == "cpu_op"]
        return collections.Counter(
            (name, str([args.get(key) or None for key in keys]), "Sequence number" in args) for name, args in found)

    def arrows(events):
        names = {event["ts"]: event["name"] for event in reversed(events) if event.get("cat") == "cpu_op"}
        ends = {}
        for event in events:
            if event.get("cat") == "fwdbwd":
                ends.setdefault(event["id"], {})[event["ph"]] = names[event["ts"]]
        return collections.Counter((found["s"], found["f"]) for found in ends.values())

    assert ops(ours) == ops(theirs) and sum(ops(ours).values()) > 100
    assert arrows(theirs) and not arrows(theirs) - arrows(one.events())


# Fails if torch's profiler records ops although no device is used: it takes many times as long.
def test_ops_are_packed():
    (one,), _ = record("""
        import torch
        x = torch.ones(3)
        for _ in range(20_000):
            x.add_(1)
        """, ANYACCEL_PROFILE_WINDOW="1000")
    assert len(one.events(name="aten::add_")) == 20_000
    assert sum(one.sizes) < 50 * len(one.events()), (one.sizes, len(one.events()))  # torch's profiler: 500


# Fails if an op's time in the lines file differs from its time in the trace, because the page finds
# the line by the time.
def test_lines_have_the_times_of_ops():
    (one,), _ = record("""
        import torch
        x = torch.ones(10)
        for i in range(50):
            x.sin()
        """)
    base = int(one.windows[0]["baseTimeNanoseconds"])
    thread = one.lines[0]["threads"][str(one.process["pid"])]
    line = [one.lines[0]["frames"][index] for index in thread["frame"]]
    starts = [start for start, text in zip(thread["start_ns"], line) if text == "program.py:4 in <module>"]
    ops = [base + 1e3 * event["ts"] for event in one.events(name="aten::sin")]
    assert len(starts) == len(ops) == 50
    assert sorted(abs(start - op) for start, op in zip(starts, ops))[25] < 20_000


# Fails if recording a TorchScript program prints warnings, for example because torch cannot count
# the FLOPs of an op whose first input is a number.
def test_no_warnings():
    (one,), done = record("""
        import torch

        @torch.jit.script
        def f(x: torch.Tensor, n: int):
            for i in range(n):
                x = x * i + torch.mm(x, x)
            return x, n * 2

        for _ in range(5):
            f(torch.ones(4, 4), 3)
        """)
    assert one.events(name="aten::mm"), done.stderr
    assert done.stderr == ""


# Fails if a killed program loses more than its last window, or if a file is incomplete.
def test_killed():
    (one,), _ = record("""
        import os, time
        import torch
        end = time.time() + 3
        while time.time() < end:
            torch.ones(3).sin()
            time.sleep(0.01)
        os.kill(os.getpid(), 9)
        """, expect=-signal.SIGKILL)
    assert len(one.windows) >= 2 and one.process["exit"]["kind"] == "running" and one.process["end_ns"] is None
    assert len(one.events(name="aten::sin")) > 30


# Fails if the end of a program is recorded wrongly, or if recording changes the exit code or hides
# the traceback.
def test_ends():
    body = "import os, sys, torch\ntorch.ones(3).sin()\n"
    ends = (("sys.exit(5)", 5, "exit"), ("raise ValueError('boom')", 1, "exception"), ("os._exit(6)", 6, "running"))
    for end, code, kind in ends:
        (one,), done = record(body + end, expect=code)
        assert one.process["exit"] == {"kind": kind, "detail": "ValueError: boom" if kind == "exception" else ""}, end
        assert (kind == "running") == (not one.windows)
        assert ("ValueError: boom" in done.stderr) == (kind == "exception")


# Fails if a range or an op that is open at the end of a window is lost or corrupts later windows.
def test_open_across_windows():
    (one,), _ = record("""
        import time
        import torch
        class Slow(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                time.sleep(1)
                return x.sin()
            @staticmethod
            def backward(ctx, g):
                time.sleep(1)
                return g
        with torch.profiler.record_function("long"):
            end = time.time() + 1
            while time.time() < end:
                torch.ones(3).sin()
                time.sleep(0.01)
            Slow.apply(torch.ones(3, requires_grad=True)).sum().backward()
            time.sleep(0.2)
            torch.ones(3).cos()
        """)
    (long,) = one.events(name="long")
    assert 3e6 < long["dur"] < 60e6
    assert len(one.windows) >= 3 and one.events(name="aten::cos")


# Fails if a program that uses torch.profiler gets an error or an empty trace, or if recording does
# not continue afterwards.
def test_own_profiler():
    (one,), done = record("""
        import torch
        torch.ones(3).sin()
        for _ in range(2):
            with torch.profiler.profile(profile_memory=True) as profiler:
                torch.ones(3).tan()
            print([event.count for event in profiler.key_averages() if event.key == "aten::tan"])
        schedule = torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=1)
        with torch.profiler.profile(schedule=schedule) as profiler:
            for _ in range(3):
                torch.ones(3).exp()
                profiler.step()
        torch.ones(3).cos()
        """)
    assert done.stdout == "[1]\n[1]\n"
    assert one.events(name="aten::sin") and one.events(name="aten::cos") and not one.events(name="aten::tan")
    assert len(one.process["pauses"]) == 3 and all(pause["end_ns"] for pause in one.process["pauses"])


# Fails if a full disk, or another error of the recorder, terminates the program.
def test_error_of_the_recorder():
    (one,), done = record("""
        import glob, os, time
        import torch
        folder, = glob.glob(os.environ["ANYACCEL_PROFILE_DIR"] + "/raw/*")
        os.makedirs(folder + "/window.json.tmp/not empty")
        end = time.time() + 2
        while time.time() < end:
            torch.ones(3).sin()
            time.sleep(0.01)
        with torch.profiler.profile():
            torch.ones(3).sin()
        print("finished")
        """)
    assert done.stdout == "finished\n" and done.stderr.count("the recording of process") == 1
    assert not one.windows and "Error" in one.process["error"]


# Fails if a forked child or a DataLoader worker breaks, or is not marked as a fork; or if a
# subprocess is not recorded.
def test_children():
    found, done = record("""
        import os, subprocess, sys
        import torch
        loader = torch.utils.data.DataLoader(torch.arange(8.0), batch_size=2, num_workers=2)
        print(sum(batch.sum().item() for batch in loader))
        child = os.fork()
        if child == 0:
            torch.ones(100).sin()
            os._exit(0)
        print(os.waitpid(child, 0)[1], flush=True)
        subprocess.run([sys.executable, "-c", "import torch; torch.ones(3).cos()"], check=True)
        subprocess.run([sys.executable, "-c", "print('no torch')"], check=True)
        """)
    assert done.stdout == "28.0\n0\nno torch\n", done.stdout
    kinds = [one.process["exit"]["kind"] for one in found]
    assert sorted(kinds) == ["exit", "exit", "fork", "fork", "fork"]
    assert [bool(one.events(name="aten::cos")) for one in found if one.process["exit"]["kind"] == "exit"] == [False, True]
    assert not any(one.windows for one in found if one.process["exit"]["kind"] == "fork")


# Fails if the limit on events does not reduce the number of windows, or stops the recording.
def test_event_limit():
    (one,), _ = record("""
        import time
        import torch
        end = time.time() + 6
        while time.time() < end:
            torch.ones(3).sin()
            time.sleep(0.001)
        """, ANYACCEL_PROFILE_MAX_EVENTS="300")
    assert one.process["dropped_windows"] > 0 and one.process["dropped_events"] > 0
    assert 2 <= len(one.windows) <= 8
    assert one.windows[-1] is not one.windows[0] and one.process["windows"][-1][1] > one.process["windows"][0][1] + 1e9


# Fails if the exchange with the shortest round trip does not win, or if the sign is wrong.
def test_clock_offset():
    assert clocks.best_offset([(0, 10_000, 9_000), (20_000, 25_100, 20_200)]) == 5_000
    now = [1000]

    def clock():
        now[0] += 50
        return now[0]

    class Store:
        """A store whose answers are 7 seconds ahead."""
        keys = {}

        def set(self, key, value):
            self.keys[key] = value

        def get(self, key):
            return str(clock() + 7_000_000_000).encode() if key.endswith("/answer") else self.keys[key]

    assert clocks.exchange(Store(), 1, clock) == 7_000_000_000


# Fails if a measurement of the peak is missing or not plausible.
def test_peak():
    measured = peak.measure("cpu", lambda: None, seconds=0.05)
    assert 1e8 < measured["flops"]["float32"] < 1e15 and 1e7 < measured["bytes_per_second"] < 1e14
