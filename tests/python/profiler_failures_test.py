"""Tests that neither the recorder of `anyaccel profile` nor its errors disturb the program."""
import collections

import pytest

from anyaccel.profiler import recorder
from anyaccel.profiler.settings import Settings
from profiler_recording import record

IN_OP = """
    import os, threading, time
    import torch
    class Op(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            time.sleep(0.8)
            inside()
            return x.sin()
        @staticmethod
        def backward(ctx, g):
            return g
    def run():
        Op.apply(torch.ones(3, requires_grad=True))
    """
PROGRAMS = {
    # The frame begins on this thread and ends on a thread of TorchScript's pool.
    "a TorchScript frame": """
    import time
    import torch
    @torch.jit.script
    def part(x):
        return (x @ x).sum()
    @torch.jit.script
    def whole(x):
        futures = [torch.jit.fork(part, x) for i in range(4)]
        total = x.sum()
        for future in futures:
            total = total + torch.jit.wait(future)
        return total
    x = torch.ones(300, 300)
    end = time.time() + 1.5
    while time.time() < end:
        whole(x)
    """,
    "torch.profiler in an op": IN_OP + """
    def inside():
        with torch.profiler.profile():
            torch.ones(3).cos()
    run()
    """,
    "fork() in an op": IN_OP + """
    def inside():
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    run()
    """,
    "an op at exit": IN_OP + """
    def inside():
        time.sleep(1000)
    threading.Thread(target=run, daemon=True).start()
    time.sleep(1)
    """,
}


# Fails if the recorder waits forever for an op, or holds its lock while it waits.
@pytest.mark.parametrize("name", PROGRAMS)
def test_op_that_stays_open(name):
    _, done = record(PROGRAMS[name] + "print('finished')\n", timeout=40)
    assert done.stdout == "finished\n" and "Traceback" not in done.stderr, done.stderr


# Fails if every window that a TorchScript frame outlives is lost, or ends only when the program
# exits.
def test_torchscript_frames_are_recorded():
    (one,), _ = record(PROGRAMS["a TorchScript frame"], timeout=40)
    assert len(one.windows) >= 3 and len(one.events(name="aten::mm")) > 50 and "error" not in one.process


# Fails if an error of the recorder propagates to the program's call to torch.profiler.
def test_folder_is_deleted():
    found, done = record("""
        import os, shutil
        import torch
        torch.ones(3).sin()
        shutil.rmtree(os.environ["ANYACCEL_PROFILE_DIR"])
        for _ in range(2):
            with torch.profiler.profile():
                torch.ones(3).sin()
        print("finished")
        """)
    assert done.stdout == "finished\n" and not found
    assert done.stderr.count("the recording of process") == 1 and "Traceback" not in done.stderr


# Fails if an error other than OSError terminates the recorder's thread without a message.
def test_process_file_fails():
    (one,), done = record("""
        import time
        import torch
        from anyaccel.profiler import process
        def update(self):
            raise RuntimeError("dictionary changed size")
        process.Process.update = update
        end = time.time() + 1
        while time.time() < end:
            torch.ones(3).sin()
        """)
    assert one.process["error"] == "RuntimeError: dictionary changed size"
    assert done.stderr.count("the recording of process") == 1 and "Traceback" not in done.stderr


# Fails if the recorder's thread reads the window again after another thread has ended it.
def test_window_ends_during_check(tmp_path):
    one = recorder.Recorder(Settings(str(tmp_path), poll=0.0))

    class Window:
        activities = None

        def full(self, settings):
            one.window, one.finished = None, True
            return False

    one.window = Window()
    one.run()


# Fails if fork() blocks in a thread of a forked child.
def test_fork_in_a_thread_of_a_child():
    found, done = record("""
        import os, threading
        import torch
        def nested():
            grandchild = os.fork()
            if grandchild == 0:
                os._exit(0)
            os.waitpid(grandchild, 0)
        child = os.fork()
        if child == 0:
            thread = threading.Thread(target=nested, daemon=True)
            thread.start()
            thread.join(10)
            os._exit(thread.is_alive())
        print(os.waitpid(child, 0)[1])
        """)
    kinds = collections.Counter(one.process["exit"]["kind"] for one in found)
    assert done.stdout == "0\n" and kinds == {"exit": 1, "fork": 2}


# Fails if memory that is freed between windows stays in the sum, so that the sum grows. At most
# 21 blocks of 4 MiB are alive.
def test_memory_freed_between_windows():
    (one,), done = record("""
        import collections, time
        import torch
        blocks = collections.deque(maxlen=20)
        end = time.time() + 4
        while time.time() < end:
            blocks.append(torch.empty(1 << 20))
            time.sleep(0.001)
        """)
    assert len(one.windows) >= 4
    assert max(event["args"]["Total Allocated"] for event in one.events(name="[memory]")) < 100 << 20
    assert done.stderr == ""


RANGES = """
    def growth():
        def pages():
            return int(open("/proc/self/statm").read().split()[1])
        before = pages()
        for _ in range(600_000):
            with torch.profiler.record_function("range"):
                pass
        return (pages() - before) * os.sysconf("SC_PAGESIZE") >> 20
    """


# Fails if ranges use memory (about 70 MiB here) in a forked child, where nothing writes them to a
# file.
def test_ranges_in_a_child():
    _, done = record("    import os\n    import torch\n" + RANGES + """
    with torch.profiler.record_function("open across fork()"):
        child = os.fork()
    if child == 0:
        print(growth(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    """)
    assert int(done.stdout) < 12


# Fails if ranges use memory after an error has stopped the recording.
def test_ranges_after_an_error():
    _, done = record("    import os, shutil, time\n    import torch\n" + RANGES + """
    torch.ones(3).sin()
    shutil.rmtree(os.environ["ANYACCEL_PROFILE_DIR"])
    end = time.time() + 1.5
    while time.time() < end:
        torch.ones(3).sin()
    print(growth())
    """)
    assert "the recording of process" in done.stderr and int(done.stdout) < 12


# Fails if a recording needs a folder whose name is valid UTF-8.
def test_folder_is_not_utf8():
    (one,), done = record("""
        import torch
        torch.ones(3).sin()
        """, out="caf\udce9")
    assert one.events(name="aten::sin") and done.stderr == ""
