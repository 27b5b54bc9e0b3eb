"""Every member of DeepSpeed 0.19.8's abstract accelerator, and AnyAccel's additional members, on
the CPU.
"""

import os
import pickle
import warnings

import pytest
import torch

import anyaccel
from anyaccel import get_accelerator

GIB = 1 << 30


def pinned(tensor, shape, dtype):
    return tuple(tensor.shape) == shape and tensor.dtype is dtype and tensor.device.type == "cpu"


def check_rng(a):
    state = a.get_rng_state(device_index=0)
    first = torch.rand(4)
    a.set_rng_state(new_state=state, device_index=0)
    return torch.equal(first, torch.rand(4)) and state.dtype is torch.uint8


def check_seed(a, seed):
    seed(seed=5)
    first = torch.rand(4)
    torch.manual_seed(5)
    return torch.equal(first, torch.rand(4)) and a.initial_seed() == 5


def check_generator(a):
    generator = a.default_generator(device_index=0)
    generator.manual_seed(9)
    return isinstance(generator, torch.Generator) and torch.initial_seed() == 9


def check_random(a):
    random = a.random()
    random.manual_seed(3)
    state = random.get_rng_state()
    with random.fork_rng():
        random.manual_seed(4)
        torch.rand(1)
    same = torch.equal(state, random.get_rng_state())
    random.set_rng_state(state)
    return same and random.initial_seed() == 3


def check_stream_scope(a):
    stream = a.Stream()
    before = a.current_stream()
    with a.stream(stream):
        inside = a.current_stream() == stream
    with a.stream(None):
        pass
    return inside and a.current_stream() == before and before != stream


def check_device_scope(a):
    with a.device(device_index=0):
        inside = a.current_device()
    return inside == 0


def check_peak(a, reset, peak):
    kept = torch.ones(1000)
    reset(device_index=0)
    base = peak(device_index=0)
    torch.ones(100000)
    return peak() >= base + 400000 and kept.numel() == 1000


def check_allocated(a, read):
    before = read(device_index=0)
    tensor = torch.ones(12345)
    return read() - before >= 4 * tensor.numel()


def check_range(a):
    a.range_push("outer", domain="d", category="c")
    a.range_push(msg="inner")
    a.range_pop()
    a.range_pop(domain="d")
    with pytest.raises(anyaccel.Error) as error:
        a.range_pop()
    return error.value.code == "invalid_state"


def check_lazy(a):
    called = []
    a.lazy_call(callback=lambda: called.append(1))
    return called == [1]


def check_compile_backend(a):
    a.set_compile_backend(backend=a.get_compile_backend())
    with pytest.raises(anyaccel.Error) as error:
        a.set_compile_backend("no such backend")
    return error.value.code == "invalid_argument" and a.get_compile_backend() == "inductor"


def check_graph(a):
    x = torch.ones(4)
    graph = a.create_graph()
    with a.capture_to_graph(graph=graph, pool=None, stream=None):
        y = x * 2
    x.fill_(5)
    a.replay_graph(graph=graph)
    return torch.equal(y, torch.full((4,), 10.0)) and not a.is_current_stream_capturing()


def check_capturing(a):
    graph = a.create_graph()
    with a.capture_to_graph(graph):
        inside = a.is_current_stream_capturing()
    return inside and a.is_current_stream_capturing() is False


def check_tensor(maker, dtype):
    made = maker([1, 2, 3])
    return made.dtype is dtype and made.tolist() == [1, 2, 3] and made.device.type == "cpu"


def check_pin_memory(a):
    x = torch.arange(6.0).reshape(2, 3)
    older = [a.pin_memory(x, 0), a.pin_memory(x, 4096), a.pin_memory(x, align_bytes=1)]
    return all(torch.equal(y, x) for y in older) and torch.equal(a.pin_memory(tensor=x, make_copy=True), x) and pinned(a.pin_memory(x, match_shape=False, make_copy=False), (6,), x.dtype)


def check_unpin(a):
    x = a.pin_memory(torch.arange(3.0))
    return a.unpin_memory(tensor=x).tolist() == [0, 1, 2]


def check_registered(a):
    buffer = torch.zeros(4096, dtype=torch.uint8)
    done = a.register_host_memory(address=buffer.data_ptr(), num_bytes=4096)
    a.unregister_host_memory(address=buffer.data_ptr())
    return done is False


def check_builder(a):
    assert a.get_op_builder("NoSuchBuilder") is a.get_op_builder("NoSuchBuilder")
    builder = a.get_op_builder(class_name="NoSuchBuilder")()
    with pytest.raises(anyaccel.Error) as error:
        builder.load()
    return (isinstance(builder, anyaccel.OpBuilder) and error.value.code == "unsupported" and not builder.is_compatible()
            and "cpu" in builder.compatibility().reason)


def check_create_builder(a):
    builder = a.create_op_builder(class_name="NoSuchBuilder")
    return builder.class_name() == "NoSuchBuilder" and type(builder) is a.get_op_builder("NoSuchBuilder")


def check_extension(a):
    from torch.utils.cpp_extension import BuildExtension
    made = a.build_extension()
    return issubclass(made, BuildExtension) and os.path.exists(os.path.join(made.include_dirs[0], "anyaccel/accelerator.h"))


def check_visible(a):
    environment = {"KEPT": "1"}
    a.set_visible_devices_envs(current_env=environment, local_accelerator_ids=[0, 1])
    return environment == {"KEPT": "1"}  # no environment variable selects CPU devices


CHECKS = {
    "BFloat16Tensor": lambda a: check_tensor(a.BFloat16Tensor, torch.bfloat16),
    "ByteTensor": lambda a: check_tensor(a.ByteTensor, torch.uint8),
    "DoubleTensor": lambda a: check_tensor(a.DoubleTensor, torch.float64),
    "Event": lambda a: isinstance(a.Event(enable_timing=True, blocking=True), anyaccel.Event),
    "FloatTensor": lambda a: check_tensor(a.FloatTensor, torch.float32),
    "HalfTensor": lambda a: check_tensor(a.HalfTensor, torch.float16),
    "IntTensor": lambda a: check_tensor(a.IntTensor, torch.int32),
    "LongTensor": lambda a: check_tensor(a.LongTensor, torch.int64),
    "Stream": lambda a: isinstance(a.Stream(priority=-1), a.Stream) and a.Stream() != a.Stream(),
    "available_memory": lambda a: 0 < a.available_memory(device_index=0) < 1 << 50,
    "build_extension": check_extension,
    "capture_to_graph": check_graph,
    "communication_backend_name": lambda a: a.communication_backend_name() in torch.distributed.Backend.backend_list + ["ccl"],
    "create_graph": lambda a: a.create_graph().state == "empty",
    "create_op_builder": check_create_builder,
    "current_device": lambda a: a.current_device() == 0,
    "current_device_name": lambda a: torch.empty(0, device=a.current_device_name()).device.type == "cpu",
    "current_stream": lambda a: a.current_stream(device_index=0) == a.current_stream(),
    "default_generator": check_generator,
    "default_stream": lambda a: a.default_stream(device_index=0) == a.default_stream(),
    "device": check_device_scope,
    "device_count": lambda a: a.device_count() >= 1,
    "device_name": lambda a: a.device_name() == "cpu" and a.device_name(device_index=0) == a.device_name(0) == "cpu",
    "empty_cache": lambda a: a.empty_cache() is None,
    "export_envs": lambda a: isinstance(a.export_envs(), list),
    "get_compile_backend": check_compile_backend,
    "get_op_builder": check_builder,
    "get_rng_state": check_rng,
    "handles_memory_backpressure": lambda a: isinstance(a.handles_memory_backpressure(), bool),
    "initial_seed": lambda a: check_seed(a, a.manual_seed),
    "is_available": lambda a: a.is_available() is True,
    "is_bf16_supported": lambda a: isinstance(a.is_bf16_supported(), bool),
    "is_current_stream_capturing": check_capturing,
    "is_fp16_supported": lambda a: isinstance(a.is_fp16_supported(), bool),
    "is_fp64_supported": lambda a: a.is_fp64_supported() is True,
    "is_pinned": lambda a: isinstance(a.is_pinned(tensor=torch.ones(1)), bool),
    "is_synchronized_device": lambda a: a.is_synchronized_device() is True,
    "is_triton_supported": lambda a: isinstance(a.is_triton_supported(), bool),
    "lazy_call": check_lazy,
    "manual_seed": lambda a: check_seed(a, a.manual_seed),
    "manual_seed_all": lambda a: check_seed(a, a.manual_seed_all),
    "max_memory_allocated": lambda a: check_peak(a, a.reset_peak_memory_stats, a.max_memory_allocated),
    "max_memory_cached": lambda a: check_peak(a, a.reset_peak_memory_stats, a.max_memory_cached),
    "max_memory_reserved": lambda a: check_peak(a, a.reset_peak_memory_stats, a.max_memory_reserved),
    "memory_allocated": lambda a: check_allocated(a, a.memory_allocated),
    "memory_cached": lambda a: check_allocated(a, a.memory_cached),
    "memory_reserved": lambda a: check_allocated(a, a.memory_reserved),
    "memory_stats": lambda a: check_allocated(a, lambda device_index=0: a.memory_stats(device_index)["allocated_bytes.all.current"]),
    "on_accelerator": lambda a: a.on_accelerator(tensor=torch.ones(1)) is True,
    "op_builder_dir": lambda a: isinstance(a.op_builder_dir(), str),
    "pin_empty": lambda a: pinned(a.pin_empty(2, 3, dtype=torch.int8), (2, 3), torch.int8)
                 and pinned(a.pin_empty((4,), dtype=torch.half, device="cpu"), (4,), torch.half),
    "pin_empty_like": lambda a: pinned(a.pin_empty_like(torch.ones(2, 2), dtype=torch.int32), (2, 2), torch.int32),
    "pin_memory": check_pin_memory,
    "pin_memory_alignment": lambda a: a.pin_memory_alignment() >= 1,
    "prefer_triton_grouped_mm": lambda a: isinstance(a.prefer_triton_grouped_mm(), bool),
    "random": check_random,
    "range_pop": check_range,
    "range_push": check_range,
    "register_host_memory": check_registered,
    "replay_graph": check_graph,
    "reset_max_memory_allocated": lambda a: check_peak(a, a.reset_max_memory_allocated, a.max_memory_allocated),
    "reset_max_memory_cached": lambda a: check_peak(a, a.reset_max_memory_cached, a.max_memory_cached),
    "reset_peak_memory_stats": lambda a: check_peak(a, a.reset_peak_memory_stats, a.max_memory_allocated),
    "resolves_data_dependency": lambda a: isinstance(a.resolves_data_dependency(), bool),
    "set_compile_backend": check_compile_backend,
    "set_device": lambda a: a.set_device(device_index=0) is None,
    "set_rng_state": check_rng,
    "set_visible_devices_envs": check_visible,
    "stream": check_stream_scope,
    "supported_dtypes": lambda a: torch.float32 in a.supported_dtypes(),
    "supports_nvtx_domain": lambda a: a.supports_nvtx_domain() is False,
    "synchronize": lambda a: a.synchronize(device_index=0) is None,
    "total_memory": lambda a: a.total_memory(device_index=0) >= a.available_memory(),
    "unpin_memory": check_unpin,
    "unregister_host_memory": check_registered,
    "use_host_timers": lambda a: isinstance(a.use_host_timers(), bool),
    "visible_devices_envs": lambda a: a.visible_devices_envs() == (["SIM_VISIBLE_DEVICES"] if a.name() == "sim" else []),
}

# Members beyond DeepSpeed's 77. docs/reference/methods.md lists those of the C++ class.
BEYOND = {
    "amp": lambda a: a.amp().GradScaler(enabled=False).scale(torch.ones(1)).item() == 1,
    "autocast": lambda a: autocast_dtype(a) is torch.bfloat16,
    "device_type": lambda a: a.device_type() == "cpu",
    "device_properties": lambda a: a.device_properties(0).multi_processor_count >= 1,
    "dtype_support": lambda a: a.dtype_support(dtype=torch.float32).computable,
    "dtype_table": lambda a: {row.dtype: row.support for row in a.dtype_table()}[torch.int64].storable,
    "get_rss": lambda a: a.get_rss() > 1 << 20,
    "allocator_stats": lambda a: check_allocated(a, lambda device_index=0: a.allocator_stats(device_index).allocated_bytes.current),
    "host_memory_stats": lambda a: a.host_memory_stats().allocated_bytes.current >= 0,
    "memory_info": lambda a: sum(x > 0 for x in a.memory_info()) == 2,
    "name": lambda a: a.name() == "cpu",
    "set_stream": lambda a: a.set_stream(a.default_stream()) is None,
    "torch_device": lambda a: a.torch_device() == torch.device("cpu"),
}


def autocast_dtype(a):
    with a.autocast(torch.bfloat16):
        inside = torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype
    return inside if torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype is torch.float32 else None


# Fails if a member is missing or behaves differently than in DeepSpeed.
@pytest.mark.parametrize("name", sorted(CHECKS | BEYOND))
def test_member(name):
    assert hasattr(get_accelerator(), name)
    assert (CHECKS | BEYOND)[name](get_accelerator())


# Fails if one of DeepSpeed's 77 members has no check.
def test_all_77_members_are_checked():
    assert len(CHECKS) == 77


# Fails if an error has no code or the wrong message format, or cannot be pickled, which
# multiprocessing requires.
def test_errors_have_codes():
    with pytest.raises(anyaccel.Error) as error:
        get_accelerator().set_compile_backend("99")
    assert isinstance(error.value, RuntimeError)
    assert error.value.code == "invalid_argument"
    assert str(error.value).startswith("[set_compile_backend] ") and 'got "99"' in str(error.value)
    copy = pickle.loads(pickle.dumps(error.value))
    assert (type(copy), copy.code, str(copy)) == (anyaccel.Error, "invalid_argument", str(error.value))


# Fails if errors raised in Python have a different format than the library's, or torch's own errors
# are converted.
def test_errors_from_python_and_torch():
    with pytest.raises(anyaccel.Error, match=r"\[pin_empty\] .*; got device 'meta', want cpu") as error:
        get_accelerator().pin_empty(1, dtype=torch.float32, device="meta")
    assert error.value.code == "invalid_argument"
    with pytest.raises(TypeError):
        get_accelerator().on_accelerator("no tensor")


# Fails if compute_capability() on the CPU returns a value instead of raising an error.
def test_compute_capability_raises():
    with pytest.raises(anyaccel.Error) as error:
        get_accelerator().compute_capability()
    assert error.value.code == "unsupported"


# Fails if a local rank beyond the number of devices is rejected. torchrun may start any number of
# ranks.
def test_local_ranks_beyond_the_devices():
    a = get_accelerator()
    for rank in (a.device_count(), 1000, -1):
        a.set_device(rank)
        assert (a.current_device(), a.device_name(rank)) == (0, "cpu")
        with a.device(rank):
            a.synchronize(rank)
        assert a.memory_allocated(rank) >= 0 and a.total_memory(rank) > 0


# Fails if modifying a returned list modifies the names cached in Python.
def test_cached_names_cannot_be_modified():
    a = get_accelerator()
    a.export_envs().append("changed")
    assert "changed" not in a.export_envs()


# Fails if a seed that torch accepts is rejected, such as a negative one or one of more than 63
# bits.
def test_seeds_of_any_size():
    for seed in (-1, 2**64 - 1):
        get_accelerator().manual_seed(seed)
        assert get_accelerator().initial_seed() == 2**64 - 1


# Fails if a model cannot be trained with mixed precision.
def test_amp_trains():
    a = get_accelerator()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = a.amp().GradScaler(enabled=False)
    losses = []
    for _ in range(5):
        with a.amp().autocast(torch.bfloat16):
            loss = model(torch.ones(2, 4)).square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
