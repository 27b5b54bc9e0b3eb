"""Checks for the attributes of `torch.<device type>`.

A program that has selected an accelerator with two devices calls `failures()`. Each check calls the
attributes for which it is registered, and raises AssertionError if a result is wrong.
"""

import contextlib

import torch

from anyaccel import get_accelerator

CHECKS = {}
INTERFACE_CHECKS = {}
# Exceptions, which follow the vendors' modules: hpu has one device per process and no cache to
# release, and mps has one device.
IGNORES_DEVICES = ("torch.hpu",)
KEEPS_MEMORY = ("torch.hpu",)
ONE_DEVICE = ("torch.mps",)


def check(*names, checks=CHECKS):

    def add(function):
        checks.update((name, function) for name in names)
        return function

    return add


def failures(names, checks=None):
    """Run the checks for `names`. Return {name: error} for those that fail."""
    checks = CHECKS if checks is None else checks
    found = {}
    module = getattr(torch, get_accelerator().device_type())
    for name in names:
        try:
            module.set_device(0)
            checks[name](module)
        except Exception as error:  # noqa: BLE001
            found[name] = f"{type(error).__name__}: {error}"
    return found


def equal(got, want):
    assert got == want, f"got {got!r}, expected {want!r}"


def device(index):
    return torch.device(get_accelerator().device_type(), index)


def ones(index=0, size=1024):
    return torch.ones(size, device=device(index))


def draw(index=0):
    return torch.rand(16, device=device(index)).cpu()


@contextlib.contextmanager
def raising(*kinds):
    try:
        yield
    except kinds:
        return
    raise AssertionError(f"no {' or '.join(kind.__name__ for kind in kinds)} was raised")


@check("Stream", "stream", "current_stream", "set_stream", "StreamContext", "default_stream")
def streams(module):
    before = module.current_stream()
    equal(before, module.default_stream())
    side = module.Stream()
    with module.stream(side):
        equal(module.current_stream(), side)
        doubled = ones() * 2
    equal(module.current_stream(), before)
    assert isinstance(module.StreamContext, type)  # Dynamo passes it to isinstance()
    with module.StreamContext(side):
        equal(module.current_stream(), side)
    module.set_stream(side)
    equal(module.current_stream(), side)
    module.set_stream(before)
    equal(module.current_stream(), before)
    equal(module.current_stream(1).device_index, 1)
    side.synchronize()
    equal(doubled.sum().item(), 2048)
    with module.stream(None):
        equal(module.current_stream(), before)


@check("Event")
def events(module):
    start, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
    start.record()
    ones() + 1
    end.record()
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0


@check("__name__")
def own_name(module):
    equal(module.__name__, f"torch.{get_accelerator().device_type()}")


@check("_get_generator", "default_generators")
def generators(module):
    equal(len(module.default_generators), module.device_count())
    for index in range(module.device_count()):
        first = module._get_generator(device(index))
        first.manual_seed(3)
        drawn = draw(index)
        module.default_generators[index].manual_seed(3)
        assert torch.equal(drawn, draw(index))
        equal(first.device, device(index))
    with raising(IndexError):
        module.default_generators[module.device_count()]


@check("_initialized", "is_initialized", "_lazy_init")
def initialization(module):
    module._lazy_init()
    ones()
    assert module._initialized is True and module.is_initialized() is True


@check("_is_in_bad_fork")
def no_fork(module):
    equal(module._is_in_bad_fork(), False)


@check("current_device", "set_device")
def current(module):
    for index in (1, 0):
        module.set_device(index)
        equal(module.current_device(), index)
        equal(torch.empty(1, device=get_accelerator().device_type()).device.index, index)
    module.set_device(device(1))
    equal(module.current_device(), 1)
    module.set_device(-1)
    equal(module.current_device(), 1)
    if module.__name__ not in IGNORES_DEVICES:
        with raising(Exception):
            module.set_device(99)


@check("device")
def scopes(module):
    with module.device(1):
        equal(module.current_device(), 1)
        with module.device(device(0)):
            equal(module.current_device(), 0)
        equal(module.current_device(), 1)
    equal(module.current_device(), 0)
    with module.device(None), module.device(-1):
        equal(module.current_device(), 0)
    with raising(ValueError, RuntimeError):
        module.device("cpu")


@check("device_of")
def device_of(module):
    with module.device_of(ones(1)):
        equal(module.current_device(), 1)
    with module.device_of(torch.ones(1)):
        equal(module.current_device(), 0)


@check("device_count")
def count(module):
    equal(module.device_count(), 2)


@check("is_available")
def available(module):
    assert module.is_available() is True


@check("get_amp_supported_dtype")
def amp_types(module):
    computable = {dtype for dtype in (torch.float16, torch.bfloat16) if get_accelerator().dtype_support(dtype).computable}
    assert torch.bfloat16 in computable
    equal(set(module.get_amp_supported_dtype()), computable)


@check("get_device_name")
def names(module):
    for index in range(2):
        equal(module.get_device_name(index), get_accelerator().device_properties(index).name)
    equal(module.get_device_name(), module.get_device_name(0))


@check("get_device_properties")
def properties(module):
    for which in (1, device(1)):
        equal(module.get_device_properties(which).name, module.get_device_name(1))
    assert module.get_device_properties(0).total_memory > 0


@check("get_device_capability")
def capability(module):
    try:
        expected = get_accelerator().compute_capability(0)
    except Exception as error:
        expected = None
        if module.__name__ == "torch.xpu":  # torch's own function, whose result has more entries on a GPU
            assert isinstance(module.get_device_capability(0), dict)
            return
        if module.__name__ != "torch.cuda":
            with raising(type(error)):
                module.get_device_capability(0)
            return
    found = module.get_device_capability(0)
    assert len(found) == 2 and (expected is None or tuple(found) == tuple(expected)), found


@check("get_rng_state", "set_rng_state", "manual_seed_all")
def random_states(module):
    for index in range(2):
        state = module.get_rng_state(index)
        assert state.dtype == torch.uint8 and state.device.type == "cpu" and state.dim() == 1
        first = draw(index)
        assert not torch.equal(state, module.get_rng_state(index)), "the state is not a copy, or does not change"
        module.set_rng_state(state, index)
        assert torch.equal(first, draw(index))
    module.manual_seed_all(9)
    drawn = [draw(0), draw(1)]
    module.manual_seed_all(9)
    assert torch.equal(drawn[0], draw(0)) and torch.equal(drawn[1], draw(1))


@check("memory_allocated", "memory_reserved", "empty_cache", "memory_stats", "memory_stats_as_nested_dict")
def memory(module):
    index = 0 if module.__name__ in ONE_DEVICE else 1
    before = module.memory_allocated(index)
    kept = ones(index, 1 << 20)
    equal(module.memory_allocated(device(index)) - before, 4 << 20)
    assert module.memory_reserved(index) >= module.memory_allocated(index)
    stats = module.memory_stats(index)
    equal(stats["allocated_bytes.all.current"], module.memory_allocated(index))
    equal(module.memory_stats_as_nested_dict(index)["allocated_bytes"]["all"]["current"], module.memory_allocated(index))
    held = module.memory_reserved(index)
    del kept
    module.synchronize(index)
    module.empty_cache()
    assert module.memory_reserved(index) < held or module.__name__ in KEEPS_MEMORY, "empty_cache() releases nothing"


@check("memory_summary")
def summary(module):
    kept = ones(0, 5 << 20)
    text = module.memory_summary()
    assert "20" in text and len(text.splitlines()) > 5, text
    assert len(module.memory_summary(0, abbreviated=True)) < len(text)
    del kept


@check("is_current_stream_capturing", "graph")
def capturing(module):
    accelerator = get_accelerator()
    equal(module.is_current_stream_capturing(), False)
    x = ones()
    (x * 2).sum()
    module.synchronize()
    graph = torch.cuda.CUDAGraph() if module.__name__ == "torch.cuda" else accelerator.create_graph()
    with module.graph(graph):
        equal(module.is_current_stream_capturing(), True)
        y = x * 2
    equal(module.is_current_stream_capturing(), False)
    x.fill_(4)
    graph.replay()
    module.synchronize()
    equal(y.sum().item(), 8192)


@check("set_rng_ctx", "unset_rng_ctx")
def random_context(module):
    module.manual_seed_all(2)
    first = draw()
    module.manual_seed_all(2)
    module.set_rng_ctx("philox")
    second = draw()
    module.unset_rng_ctx("philox")
    assert torch.equal(first, second)
    with raising(ValueError):
        module.set_rng_ctx("mersenne")


@check("synchronize")
def waiting(module):
    for which in (None, 0, 1, device(1)):
        module.synchronize(which)
    with raising(ValueError, RuntimeError):
        module.synchronize("cpu:0")


def interface():
    from torch._dynamo.device_interface import get_interface_for_device
    return get_interface_for_device(get_accelerator().device_type())


@check("interface.Event", checks=INTERFACE_CHECKS)
def interface_event(module):
    event = interface().Event(enable_timing=False)
    event.record()
    event.synchronize()
    assert event.query()


@check("interface.Stream", "interface.stream", "interface.current_stream", "interface.set_stream", "interface.get_raw_stream",
       checks=INTERFACE_CHECKS)
def interface_streams(module):
    ours = interface()
    before = ours.current_stream()
    side = ours.Stream()
    with ours.stream(side):
        equal(ours.current_stream().stream_id, side.stream_id)
    equal(ours.current_stream(), before)
    ours.set_stream(side)
    equal(module.current_stream(), side)
    ours.set_stream(before)
    assert isinstance(ours.get_raw_stream(1), int)


@check("interface.current_device", "interface.set_device", "interface.exchange_device", "interface.maybe_exchange_device",
       "interface.device", "interface.device_count", "interface.is_available", checks=INTERFACE_CHECKS)
def interface_devices(module):
    ours = interface()
    equal((ours.device_count(), ours.is_available()), (2, True))
    ours.set_device(1)
    equal((ours.current_device(), module.current_device()), (1, 1))
    equal(ours.exchange_device(0), 1)
    equal(ours.maybe_exchange_device(-1), 0)
    equal(ours.maybe_exchange_device(1), 0)
    with ours.device(0):
        equal(ours.current_device(), 0)
    equal(ours.current_device(), 1)


@check("interface.Worker", "interface.get_device_properties", checks=INTERFACE_CHECKS)
def interface_worker(module):
    ours = interface()
    ours.Worker.set_device(1)
    equal(ours.Worker.current_device(), 1)
    equal(ours.get_device_properties(device(1)).name, module.get_device_name(1))
    equal(ours.Worker.get_device_properties(1).name, module.get_device_name(1))


@check("interface.get_compute_capability", "interface.is_bf16_supported", "interface.is_dtype_supported",
       "interface.is_triton_capable", checks=INTERFACE_CHECKS)
def interface_capabilities(module):
    ours = interface()
    assert ours.is_bf16_supported() is True and ours.is_dtype_supported(torch.bfloat16) is True
    assert isinstance(ours.get_compute_capability(0), (str, int, tuple, dict))
    equal(bool(ours.is_triton_capable()), False)


@check("interface.memory_allocated", "interface.synchronize", checks=INTERFACE_CHECKS)
def interface_memory(module):
    ours = interface()
    kept = ones(0, 1 << 20)
    equal(ours.memory_allocated(0), module.memory_allocated(0))
    assert ours.memory_allocated() >= 4 << 20
    ours.synchronize(1)
    ours.synchronize()
    del kept
