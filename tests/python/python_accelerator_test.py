"""Accelerators that users derive in Python from DeepSpeed's base class, tested on the CPU."""

import subprocess
import sys

import pytest
import torch

import anyaccel
from anyaccel import get_accelerator, set_accelerator
from anyaccel.accelerator.abstract_accelerator import DeepSpeedAccelerator


# A class as in DeepSpeed's documentation, for the CPU.
class Custom(DeepSpeedAccelerator):

    def __init__(self):
        super().__init__()
        self._name = 'custom'
        self._communication_backend_name = 'nccl'
        self._compile_backend = 'inductor'
        self.synchronized = []

    def device_name(self, device_index=None):
        return 'cpu'

    def device_count(self):
        return 3

    def is_bf16_supported(self):
        return False

    def synchronize(self, device_index=None):
        self.synchronized.append(device_index)
        super().synchronize()

    def available_memory(self, device_index=None):
        return 1000 + (device_index or 0)


@pytest.fixture
def custom():
    before = get_accelerator()
    made = Custom()
    set_accelerator(made)
    yield made
    set_accelerator(before)


# Fails if get_accelerator() does not return the user's object itself, or isinstance() does not
# recognize it.
def test_object_is_the_accelerator(custom):
    assert get_accelerator() is custom and isinstance(custom, anyaccel.Accelerator)
    assert anyaccel.detection().accelerator == "custom"
    assert not isinstance(object(), anyaccel.Accelerator)
    assert "custom" in repr(custom)


# Fails if base methods ignore attributes that the class sets after super().__init__().
def test_base_methods_use_the_attributes(custom):
    assert (custom.name(), custom.communication_backend_name(), custom.get_compile_backend()) == ("custom", "nccl", "inductor")
    custom.set_compile_backend("eager")
    assert custom.get_compile_backend() == "eager"
    with pytest.raises(anyaccel.Error, match="does not support"):
        custom.set_compile_backend("no such backend")


# Fails if inherited methods do not use the overridden ones, in Python or in C++.
def test_inherited_methods_use_overrides(custom):
    assert custom.is_available() and custom.current_device_name() == "cpu"
    assert custom.supported_dtypes() == [torch.float32] + ([torch.float16] if custom.is_fp16_supported() else [])
    assert custom.memory_allocated(3) >= 0  # the names have no index, so any index is a local rank
    info = custom.memory_info(0)
    assert info.free == 1000 and info.total > 1000
    # The cpu backend rejects the index of a device that only the class counts, instead of accessing
    # memory out of bounds.
    for ask in (custom.set_device, custom.memory_info, custom.current_stream):
        with pytest.raises(anyaccel.Error, match="device index out of range"):
            ask(2)
    assert custom.memory_allocated() >= 0


# Fails if C++ does not call the class, or super() recurses into the class.
def test_cpp_calls_the_class(custom):
    custom._all().synchronize(1)
    assert custom.synchronized == [1]
    custom.synchronize()
    assert custom.synchronized == [1, None]


# Fails if streams, events, graphs, random numbers or op builders of the user's accelerator do not
# use the backend of its device.
def test_inherited_features_use_the_device(custom):
    with custom.stream(custom.Stream()):
        x = custom.FloatTensor([1, 2])
    event = custom.Event(enable_timing=True)
    event.record()
    assert event.query()
    graph, y = custom.create_graph(), torch.zeros(2)
    with custom.capture_to_graph(graph):
        y.add_(x)
    custom.replay_graph(graph)
    assert y.tolist() == [1, 2] or y.tolist() == [2, 4]
    custom.manual_seed(3)
    assert custom.initial_seed() == 3
    assert custom.create_op_builder("UtilsBuilder").load() is anyaccel.ops.utils
    with pytest.raises(anyaccel.Error) as error:
        custom.create_op_builder("NoSuchOpBuilder").load()
    assert error.value.code == "unsupported"


# Fails if an existing class does not get a method that a later version adds to accelerators.
def test_method_added_later(custom, monkeypatch):
    monkeypatch.setattr(anyaccel.accelerator.accelerator.Accelerator, "added_later", lambda self: self.device_count() + 1, raising=False)
    assert custom.added_later() == 4
    with pytest.raises(AttributeError):
        custom.never_added()


# Fails if a class without methods cannot be instantiated, or the error for a missing name or
# unknown device type lacks the cause.
def test_errors():
    class Bare(DeepSpeedAccelerator):
        pass

    with pytest.raises(anyaccel.Error, match="_name"):
        set_accelerator(Bare())
    unknown = Bare()
    unknown._name = "no_such_device"
    assert unknown.device_name() == "no_such_device" and unknown.communication_backend_name
    with pytest.raises(anyaccel.Error) as error:
        set_accelerator(unknown)
    assert error.value.code == "unavailable" and "does not support the device type" in str(error.value)


# Fails if memory statistics recurse infinitely in a class that overrides only some of them.
def test_partly_overridden_memory_statistics(custom):
    class Counting(Custom):
        def memory_allocated(self, device_index=None):
            return 77

    counting = Counting()
    set_accelerator(counting)
    assert counting.memory_allocated() == 77
    assert counting.memory_stats(0)["allocated_bytes.all.current"] == 77
    assert counting.max_memory_allocated() >= 0
    set_accelerator(custom)
    assert get_accelerator() is custom


SEED = """
import torch
from anyaccel import get_accelerator, set_accelerator
from anyaccel.accelerator.abstract_accelerator import DeepSpeedAccelerator

class MyCustomAccelerator(DeepSpeedAccelerator):
    def __init__(self):
        super().__init__()
        self._name = 'custom'
        self._communication_backend_name = 'nccl'
        self._compile_backend = 'inductor'

    def device_name(self, device_index=None):
        if device_index is None:
            return 'custom'
        return f'custom:{device_index}'

    def device_count(self):
        return torch.custom.device_count()

    def is_bf16_supported(self):
        return True

set_accelerator(MyCustomAccelerator())
a = get_accelerator()
assert type(a) is MyCustomAccelerator
x = torch.ones(3, device=a.current_device_name()) + 1
print(a.device_count(), a.device_name(), a.current_device_name(), a.communication_backend_name(), a.on_accelerator(x), x.sum().item())
with a.stream(a.Stream()):
    x.mul_(2)
a.synchronize()
print(x.cpu().tolist(), a.is_bf16_supported(), a.memory_allocated() > 0)
"""


# Fails if the example from DeepSpeed's documentation does not run unchanged on a device type that
# is torch's renamed PrivateUse1.
def test_documented_example_on_private_use_1(monkeypatch):
    if "sim" not in anyaccel.registered_backends():
        pytest.skip("built without the simulator")
    monkeypatch.setenv("SIM_STANDS_IN_FOR", "custom")
    monkeypatch.delenv("DS_ACCELERATOR")
    done = subprocess.run([sys.executable, "-c", SEED], capture_output=True, text=True, timeout=300)
    assert done.stdout == "2 custom custom:0 nccl True 6.0\n[4.0, 4.0, 4.0] True True\n", done.stderr
