"""Devices as arguments of the accelerator's methods: in each form that torch.cuda's functions accept."""

import pytest
import torch

import anyaccel
from anyaccel import get_accelerator

ACC = get_accelerator()
TYPE = torch.device(ACC.device_name()).type
FIRST = [0, f"{TYPE}:0", torch.device(TYPE, 0)]
CURRENT = [None, TYPE, torch.device(TYPE)]
METHODS = ("synchronize", "device_properties", "current_stream", "default_stream", "memory_allocated", "max_memory_allocated",
           "reset_max_memory_allocated", "memory_cached", "memory_reserved", "max_memory_reserved", "memory_stats",
           "allocator_stats", "reset_peak_memory_stats", "total_memory", "memory_info", "get_rng_state", "default_generator",
           "dtype_table", "torch_device")


@pytest.fixture(autouse=True)
def _first_device():
    ACC.set_device(0)
    yield
    ACC.set_device(0)


# Fails if a method accepts an index only.
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("device", FIRST + CURRENT, ids=repr)
def test_forms(name, device):
    method = getattr(ACC, name)
    assert type(method(device)) is type(method())
    assert type(method(device_index=device)) is type(method())


# Fails if the index of a name or of a torch.device is lost.
@pytest.mark.parametrize("make", [int, lambda i: f"{TYPE}:{i}", lambda i: torch.device(TYPE, i)])
def test_index(make):
    last = ACC.device_count() - 1
    ACC.set_device(make(last))
    assert ACC.current_device() == last
    ACC.set_device(0)
    with ACC.device(make(last)):
        assert ACC.current_device() == last
    assert ACC.current_device() == 0
    assert ACC.device_name(make(last)) == ACC.device_name(last)
    assert ACC.torch_device(make(last)) == ACC.torch_device(last)
    ACC.set_rng_state(ACC.get_rng_state(make(last)), make(last))


# Fails if a device without an index is not the current one.
def test_without_index():
    last = ACC.device_count() - 1
    ACC.set_device(last)
    ACC.set_device(TYPE)
    assert ACC.current_device() == last
    with ACC.device(torch.device(TYPE)):
        assert ACC.current_device() == last


# Fails if a device of another type is taken for one of the accelerator.
def test_errors():
    for device in ("meta", torch.device("meta"), "meta:0"):
        for call in (ACC.synchronize, ACC.memory_allocated, ACC.set_device, ACC.device_name):
            with pytest.raises(anyaccel.Error, match="belongs to another accelerator; got meta"):
                call(device)
    for wrong in (1.5, [], object()):
        with pytest.raises(TypeError):
            ACC.memory_allocated(wrong)
    with pytest.raises(TypeError):
        ACC.set_device(None)


# Fails if an unknown name gives torch's list of all device types instead of one clear line.
def test_unknown_name():
    with pytest.raises(anyaccel.Error, match="no device has this name; got 'nonsense', want an index") as caught:
        ACC.synchronize("nonsense")
    assert caught.value.code == "invalid_argument" and "\n" not in str(caught.value)
