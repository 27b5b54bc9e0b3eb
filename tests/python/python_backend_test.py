"""Backends written in Python that extend the backends cpu and sim: registration, detection and
conformance.
"""

import os

import pytest

from python_backend_case import run


# Fails if a registered class cannot be selected by its name, or C++ does not call it.
# device_properties() and memory_info() are C++ functions.
def test_selected_by_name():
    done = run("""
register_backend("card", Card, base="cpu", vendor="us")
a = get_accelerator()
print(a.name(), a.device_properties().name, a.device_properties().vendor, tuple(a.memory_info()), a.available_memory())
print(anyaccel.detection().reason)
assert "card" in anyaccel.registered_backends()
""", DS_ACCELERATOR="card")
    assert done.stdout.splitlines()[0] == f"card Card 0 us (123, {1 << 30}) 123"
    assert done.stdout.splitlines()[1].startswith("selected by DS_ACCELERATOR")


# Fails if detection does not call Python probes, or fails because of a broken probe although
# another backend is available.
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


# Fails if an error that a Python backend raises has a different code in C++, or loses the original
# exception.
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
    assert lines[3].startswith("internal") and "current_stream() returned a value of the wrong type" in lines[3]
    assert lines[4:] == ["interrupted"] + ["invalid_argument"] * 5


ENTRY = {
    "goodcard": "good_card:Good",
    "byfunction": "good_card:register",
    "brokencard": "no_such_module_of_a_card:Card",
}


@pytest.fixture
def packages(tmp_path):
    """Create distributions with entry points, in a folder for PYTHONPATH."""
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


# Fails if an entry point is not found, or is imported although another accelerator is selected. A
# broken entry point must not affect programs that do not select it.
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
    assert "no_such_module_of_a_card" in done.stdout and "skipping the backend 'brokencard'" in done.stderr
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


# Fails if a Python backend that forwards all calls to its base gets different conformance results
# than the base.
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


# Fails if the conformance kit passes an incorrect Python backend.
def test_conformance_detects_incorrect_backend():
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
