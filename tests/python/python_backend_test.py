"""Backends written in Python, over those of the host and of the simulator. One process each: a registry belongs to the process."""

import os

import pytest

import child

COMMON = """
import os, sys, threading
import torch
import anyaccel
from anyaccel import Backend, Error, get_accelerator, register_backend, set_accelerator

class Card(Backend):
    def properties(self, index):
        return {"name": f"Card {index}", "total_memory": 1 << 30}
    def memory_info(self, index):
        return 123, 1 << 30
"""


def run(code, status=0, **variables):
    environment = {key: value for key, value in os.environ.items() if key != "DS_ACCELERATOR"}
    done = child.run(COMMON + code, {**environment, **variables}, timeout=600)
    assert done.returncode == status, done.stdout + done.stderr
    return done


# Breaks when a registered class is not chosen by its name, or C++ does not ask it (device_properties() and memory_info() are C++'s).
def test_chosen_by_name():
    done = run("""
register_backend("card", Card, base="cpu", vendor="us")
a = get_accelerator()
print(a.name(), a.device_properties().name, a.device_properties().vendor, tuple(a.memory_info()), a.available_memory())
print(anyaccel.detection().reason)
assert "card" in anyaccel.registered_backends()
""", DS_ACCELERATOR="card")
    assert done.stdout.splitlines()[0] == f"card Card 0 us (123, {1 << 30}) 123"
    assert done.stdout.splitlines()[1].startswith("DS_ACCELERATOR names it")


# Breaks when detection does not ask probes written in Python, loses a reason, or a broken one is fatal although another is to be had.
def test_detection():
    done = run("""
register_backend("absent", Card, base="cpu", priority=30, probe=lambda: (0, "no card in the slot"))
def broken():
    raise RuntimeError("the driver is gone")
register_backend("broken", Card, base="cpu", priority=20, probe=broken)
class Failing(Card):
    def __init__(self):
        raise ValueError("cannot start")
register_backend("failing", Failing, base="cpu", priority=15, probe=lambda: 1)
register_backend("card", Card, base="cpu", priority=10, probe=lambda: 2)
print(get_accelerator().name())
for verdict in anyaccel.detection().backends:
    if verdict.name in ("absent", "broken", "failing", "card"):
        print(verdict.name, verdict.device_count, verdict.reason)
try:
    set_accelerator("broken")
except Error as error:
    print(error.code, error)
""")
    lines = done.stdout.splitlines()
    assert lines[0] == "card" and lines[1] == "absent 0 no card in the slot"
    assert "the driver is gone" in lines[2] and "cannot start" in lines[3] and lines[4].startswith("card 2")
    assert lines[5].startswith("unavailable") and "the driver is gone" in lines[5]


# Breaks when a backend in Python is given an error that is another one for C++, or loses what its class raised.
def test_errors():
    done = run("""
class Bad(Card):
    def synchronize(self, index):
        raise NotImplementedError("no way to wait")
    def empty_cache(self):
        raise KeyError("a slip")
    def set_device(self, index):
        raise Error("[set_device] it is taken", "unavailable")
    def current_stream(self, index):
        return "no stream"
    def reset_peak_memory_stats(self, index):
        raise KeyboardInterrupt
register_backend("bad", Bad, base="cpu")
a = get_accelerator()
for call in (a.synchronize, a.empty_cache, lambda: a.set_device(0), a.current_stream):
    try:
        call()
    except Error as error:
        print(error.code, error)
try:
    a.reset_peak_memory_stats()
except KeyboardInterrupt:
    print("interrupted")
for bad in (lambda: register_backend("x", int), lambda: register_backend("x", Card), lambda: register_backend("x", Card, base="cpu", colour=1),
            lambda: register_backend("bad", Card, base="cpu"), lambda: register_backend("x", Card, base="nothing")):
    try:
        bad()
    except Error as error:
        print(error.code)
""", DS_ACCELERATOR="bad")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("unsupported") and "no way to wait" in lines[0]
    assert lines[1].startswith("internal") and "KeyError: 'a slip'" in lines[1]
    assert lines[2].startswith("unavailable") and "it is taken" in lines[2]
    assert lines[3].startswith("internal") and "current_stream() gave another type" in lines[3]
    assert lines[4:] == ["interrupted"] + ["invalid_argument"] * 5


PARTS = """
class Event:
    log = []
    def __init__(self, below): self.below = below
    def record(self, stream): Event.log.append("record"); self.below.record(stream)
    def wait(self, stream): Event.log.append("wait"); self.below.wait(stream)
    def query(self): return self.below.query()
    def synchronize(self): Event.log.append("synchronize"); self.below.synchronize()
    def elapsed_time(self, end): return 4.5
class Graph:
    def __init__(self, below): self.below = below
    def capture_begin(self, pool): self.below.capture_begin(pool)
    def capture_end(self): self.below.capture_end()
    def replay(self): Event.log.append("replay"); self.below.replay()
    def reset(self): self.below.reset()
    def pool(self): return self.below.pool()
class Parts(Card):
    def new_event(self, index, timing): return Event(super().new_event(index, timing))
    def new_graph(self): return Graph(super().new_graph())
    def new_stream(self, index, priority):
        Event.log.append(("stream", index, priority))
        return super().new_stream(index, priority)
"""


# Breaks when streams, events and graphs of a Python class are not used through the same classes as those of C++.
@pytest.mark.parametrize("base", ["cpu", "sim"])
def test_streams_events_graphs(base):
    done = run(PARTS + f"""
register_backend("parts", Parts, base={base!r})
a = get_accelerator()
s = a.Stream(priority=-1)
begin, end = a.Event(enable_timing=True), a.Event(enable_timing=True)
x = torch.ones(4, device=a.current_device_name())
a.synchronize()
with s:
    begin.record()
    y = x + 1
    end.record()
end.wait(a.current_stream()); end.synchronize()
print(begin.elapsed_time(end), y.cpu().tolist())
g = a.create_graph()
with a.capture_to_graph(g):
    y.add_(1)
a.replay_graph(g); a.synchronize()
print(g.state, type(s) is anyaccel.Stream)
for wanted in (("stream", 0, -1), "record", "wait", "synchronize", "replay"):
    assert wanted in Event.log, Event.log
""", DS_ACCELERATOR="parts")
    assert done.stdout == "4.5 [2.0, 2.0, 2.0, 2.0]\ncaptured True\n"


# Breaks when a slot that threads call takes no lock of Python's, or one that waits keeps it: the thread here would wait for ever.
def test_threads():
    run("""
entered, go = threading.Event(), threading.Event()
class Waiting(Card):
    def synchronize(self, index):
        entered.set()
        assert go.wait(300)
register_backend("waiting", Waiting, base="cpu")
a = get_accelerator()
thread = threading.Thread(target=a.synchronize)
thread.start()
assert entered.wait(300)
assert [a.memory_info().free for _ in range(100)] == [123] * 100
go.set()
thread.join()
# First choices of many threads at once, with a finder and a constructor that take the lock.
""", DS_ACCELERATOR="waiting")
    run("""
class Slow(Card):
    def __init__(self):
        import time
        time.sleep(0.05)
register_backend("slow", Slow, base="cpu")
calls = [get_accelerator, anyaccel.detect, anyaccel.registered_backends, anyaccel.Event, lambda: anyaccel.Stream(), anyaccel.detection] * 4
threads = [threading.Thread(target=call) for call in calls]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert get_accelerator().name() == "slow"
""", DS_ACCELERATOR="slow")


# Breaks when the interpreter's end meets C++ that still asks a backend in Python, in another thread or in what is freed last.
def test_exit():
    run("""
register_backend("card", Card, base="sim")
a = get_accelerator()
kept = [a.Event(enable_timing=True), torch.ones(100, device=a.current_device_name()), a.create_graph()]
kept[0].record()
def ask():
    while True:
        a.memory_info(); a.device_properties()
for _ in range(3):
    threading.Thread(target=ask, daemon=True).start()
sys.exit(5)
""", status=5, DS_ACCELERATOR="card")


# Breaks when a child of fork() cannot ask the backend, or hangs on a lock.
def test_fork():
    run("""
register_backend("card", Card, base="cpu")
a = get_accelerator()
child = os.fork()
if child == 0:
    os._exit(0 if (a.memory_info().free, a.device_properties().name) == (123, "Card 0") else 1)
assert os.waitpid(child, 0)[1] == 0
""", DS_ACCELERATOR="card")


ENTRY = {
    "goodcard": "good_card:Good",
    "byfunction": "good_card:register",
    "brokencard": "no_such_module_of_a_card:Card",
}


@pytest.fixture
def packages(tmp_path):
    """Distributions with entry points, in a folder for PYTHONPATH."""
    (tmp_path / "good_card.py").write_text("""
import anyaccel
print("imported")
class Good(anyaccel.Backend):
    traits = {"base": "cpu", "vendor": "them", "priority": -2000}
    @staticmethod
    def probe():
        return 1, "its entry point says so"
def register():
    anyaccel.register_backend("byfunction", Good)
""")
    for name, value in ENTRY.items():
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[anyaccel.backends]\n{name} = {value}\n")
    return {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ['PYTHONPATH']}"}


# Breaks when an entry point is not found, is imported although another accelerator is named, or a broken one stops who does not name it.
def test_entry_points(packages):
    for name in ("goodcard", "byfunction"):
        done = run("print(get_accelerator().name(), get_accelerator().device_properties(0).vendor or 'no vendor')", DS_ACCELERATOR=name, **packages)
        assert done.stdout.startswith(f"imported\n{name} ") and not done.stderr
    assert run("print(get_accelerator().name())", DS_ACCELERATOR="cpu", **packages).stdout == "cpu\n"
    assert run("""
get_accelerator()
set_accelerator("goodcard")
print(get_accelerator().name())
""", DS_ACCELERATOR="cpu", **packages).stdout == "imported\ngoodcard\n"
    done = run("print({v.name: v.reason for v in anyaccel.detect().backends}['brokencard'])", **packages)
    assert "no_such_module_of_a_card" in done.stdout and "the backend 'brokencard' is skipped" in done.stderr
    done = run("get_accelerator()", status=1, DS_ACCELERATOR="brokencard", **packages)
    assert "no_such_module_of_a_card" in done.stderr


JUDGED = """
class Judged(Backend):
    def properties(self, index): return {"name": f"Judged {index}"}
    def synchronize(self, index): super().synchronize(index)
    def current_stream(self, index): return super().current_stream(index)
    def set_stream(self, stream): super().set_stream(stream)
    def new_event(self, index, timing): return super().new_event(index, timing)
    def memory_stats(self, index): return super().memory_stats(index)
    def memory_info(self, index): return super().memory_info(index)
    def dtype_support(self, index, dtype): return super().dtype_support(index, dtype)
    def default_generator(self, index): return super().default_generator(index)
    def current_device(self): return super().current_device()
    def set_device(self, index): super().set_device(index)
    def device_count(self): return super().device_count()
    def range_push(self, message, domain, category): super().range_push(message, domain, category)
    def range_pop(self, domain): super().range_pop(domain)
"""


# Breaks when a backend in Python is judged otherwise than the one it is laid over: threads, forks, streams and refusals pass through it.
@pytest.mark.parametrize("base", ["cpu", "sim"])
def test_conformance(base):
    done = run(JUDGED + f"""
from anyaccel import conformance
register_backend("judged", Judged, base={base!r})
words = ["--backend", "judged", "--timeout", "300"]
for suite in ("identity", "devices", "random", "streams", "memory", "dtypes", "graphs", "op_builders", "environment", "threads", "fork", "errors"):
    words += ["--suite", suite]
sys.exit(conformance.main(words))
""")
    assert "conforms" in done.stdout.splitlines()[-1], done.stdout


# Breaks when the kit passes a backend in Python that is wrong.
def test_conformance_fails_what_is_wrong():
    done = run("""
class Wrong(Card):
    def set_device(self, index):
        pass
    def current_device(self):
        return 1
from anyaccel import conformance
register_backend("wrong", Wrong, base="sim")
sys.exit(conformance.main(["--backend", "wrong", "--suite", "devices"]))
""", status=1)
    assert "devices." in done.stdout


HOST = """
import ctypes, gc
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
class Host:
    given, back, asked = {}, [], 0
    def allocate(self, num_bytes):
        if num_bytes > 1 << 30:
            return None
        Host.given[address := libc.malloc(num_bytes)] = num_bytes
        return address
    def free(self, address):
        Host.back.append(Host.given.pop(address))
        libc.free(address)
class WithHost(Card):
    def host_allocator(self):
        Host.asked += 1
        return Host()
"""


# Breaks when pinned memory does not come from the class's allocator, does not go back there, is not known as pinned (also a part of it), or
# what the allocator refuses is anything but out_of_memory.
def test_host_allocator():
    done = run(HOST + """
register_backend("card", WithHost, base="cpu")
a = get_accelerator()
plain = torch.arange(6.0)
pinned = a.pin_memory(plain)
assert pinned.equal(plain) and a.is_pinned(pinned) and a.is_pinned(pinned[2:]) and not a.is_pinned(plain)
assert list(Host.given) == [pinned.data_ptr()] and a.pin_memory(pinned).data_ptr() == pinned.data_ptr()
more = a.pin_empty(4, 5, dtype=torch.int64)
assert Host.given[more.data_ptr()] == 160 and a.pin_empty(0, dtype=torch.int8).numel() == 0
try:
    a.pin_empty(1 << 31, dtype=torch.int8)
except Error as error:
    print(error.code, error)
ended = threading.Event()
def drop(tensor):
    del tensor[:]
    ended.set()
threading.Thread(target=drop, args=([more],)).start()
ended.wait()
del pinned, more
gc.collect()
print(sorted(Host.back), Host.given, Host.asked)
kept = a.pin_empty(8, dtype=torch.int8)
""", DS_ACCELERATOR="card")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("out_of_memory [card.host_allocator]") and lines[1] == "[24, 160] {} 1" and not done.stderr


# Breaks when a class cannot say that nothing needs pinning, or reach the allocator of the backend below, or another object is taken.
def test_host_allocator_of_the_backend_below():
    done = run("""
class Nothing(Card):
    def host_allocator(self): return None
class Below(Card):
    def host_allocator(self): return super().host_allocator()
made = []
class Around(Card):
    def __init__(self):
        made.append(self)
    def host_allocator(self):
        self.below, self.log = super().host_allocator(), []
        return self
    def allocate(self, num_bytes):
        self.log.append(num_bytes)
        return self.below.allocate(num_bytes)
    def free(self, address):
        self.log.append("back")
        self.below.free(address)
class Wrong(Card):
    def host_allocator(self): return 3
for cls in (Nothing, Below, Wrong):
    register_backend(cls.__name__.lower(), cls, base="sim")
set_accelerator("nothing")
a = get_accelerator()
x = torch.ones(4)
assert a.pin_memory(x).data_ptr() == x.data_ptr() and not a.is_pinned(x)
set_accelerator("below")
a = get_accelerator()
pinned = a.pin_memory(x)
assert a.is_pinned(pinned) and pinned.is_pinned() and pinned.to("sim").sum().item() == 4
register_backend("around", Around, base="sim")
set_accelerator("around")
a = get_accelerator()
pinned = a.pin_memory(x)
assert a.is_pinned(pinned)
del pinned
print(made[0].log)
set_accelerator("wrong")
try:
    get_accelerator().pin_memory(x)
except Error as error:
    print(error.code, error)
""", DS_ACCELERATOR="cpu")
    lines = done.stdout.splitlines()
    assert lines[0] == "[16, 'back']" and lines[1].startswith("invalid_argument [wrong.host_allocator]") and "got 3" in lines[1]
