"""Components of a backend written in Python: streams, events, graphs, threads, forks and host
memory.
"""

import pytest

from python_backend_case import run

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


# Fails if streams, events and graphs of a Python backend do not work through the same classes as
# those of C++ backends.
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


# Fails if a backend method that a thread calls does not acquire the GIL. If the method held the GIL
# while it waits, this test would hang.
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
# Many threads make their first call at once, while a finder or a constructor holds the lock.
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


# Fails if C++ calls a Python backend during interpreter exit, from another thread or from the last
# destructors.
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


# Fails if a forked child cannot query the backend, or hangs on a lock.
def test_fork():
    run("""
register_backend("card", Card, base="cpu")
a = get_accelerator()
child = os.fork()
if child == 0:
    os._exit(0 if (a.memory_info().free, a.device_properties().name) == (123, "Card 0") else 1)
assert os.waitpid(child, 0)[1] == 0
""", DS_ACCELERATOR="card")


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


# Fails if pinned memory does not come from the class's allocator, is not returned to it, or is not
# recognized as pinned.
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


# Fails if host_allocator() cannot return None for "no pinning needed" or the base backend's
# allocator. Other objects must be rejected.
def test_host_allocator_of_the_base_backend():
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
