"""async_io and pin_memory, called as in DeepSpeed's Python code, and torch's requirements for ops.
Also runs on sim.
"""

import os

import pytest
import torch

import anyaccel
from async_io_numbers import aio, numbers, path  # noqa: F401

accelerator = anyaccel.get_accelerator()
pins = accelerator.create_op_builder("PinMemoryBuilder").load()
DEVICE = "cpu" if accelerator.name() == "cpu" else accelerator.current_device_name()
on_device = pytest.mark.skipif(DEVICE == "cpu", reason="the accelerator is the host")


def test_methods_match_deepspeed(path):
    """Fails if the arguments, results or defaults of the handle's methods differ from DeepSpeed's.
    """
    handle = aio.aio_handle(block_size=4096, queue_depth=4, single_submit=True, overlap_events=True, intra_op_parallelism=2)
    asked = [getattr(handle, "get_" + name)() for name in
             ("block_size", "queue_depth", "single_submit", "overlap_events", "intra_op_parallelism", "alignment")]
    assert asked == [4096, 4, True, True, 2, 1024]
    plain = aio.aio_handle()
    assert (plain.get_block_size(), plain.get_queue_depth(), plain.get_single_submit()) == (1 << 20, 128, False)
    assert handle.get_queue() in handle.get_queue_reason() or "[" in handle.get_queue_reason()
    x, y = numbers(50001), torch.zeros(50001)
    ways = [(lambda: handle.write(x, path, True), lambda: handle.read(y, path, True), 0),
            (lambda: handle.pwrite(x, path, True, False), lambda: handle.pread(y, path, True, False), 1),
            (lambda: handle.sync_pwrite(x, path, 3), lambda: handle.sync_pread(y, path, 3), 1),
            (lambda: aio.aio_write(x, path, 4096, 8, False, True, True), lambda: aio.aio_read(y, path, 4096, 8, False, True, True), 0)]
    for write, read, result in ways:
        y.zero_()
        assert write() == result and read() == result
        assert torch.equal(x, y)
    y.zero_()
    assert handle.async_pwrite(x, path) == 0 and handle.pwrite(x, path + "2", False, True) == 0
    assert handle.wait() == 2
    assert handle.async_pread(y, path) == 0
    # The result also counts the earlier transfer.
    assert handle.sync_pread(torch.empty(10), path) == 2
    assert torch.equal(x, y) and handle.wait() == 0
    assert aio.deepspeed_memcpy(y, x + 1) == 0 and torch.equal(y, x + 1)


def test_earlier_failure_stops_the_new_transfer(path):
    """Fails if a call leaves its own transfer running when it raises the error of an earlier
    transfer.
    """
    handle = aio.aio_handle(4096, 1, True, False, 1)
    handle.sync_pwrite(numbers(5_000_000), path)
    handle.async_pread(torch.zeros(5_000_000), path)
    handle.cancel()
    y = torch.zeros(3_000_000)
    with pytest.raises(anyaccel.Error, match="cancel"):
        handle.sync_pread(y, path)
    assert torch.equal(y, numbers(3_000_000))


def test_offsets_and_descriptors(path):
    """Fails if a write changes bytes outside its range, or uses the wrong file descriptor."""
    handle = aio.aio_handle(4096, 8, False, True, 1)
    before = numbers(30000, torch.uint8)
    handle.sync_pwrite(before, path)
    handle.sync_pwrite(torch.full((5000,), 7, dtype=torch.uint8), path, 1234)
    with open(path, "r+b") as file:
        assert handle.async_pwrite(torch.full((4096,), 9, dtype=torch.uint8), file.fileno(), 8192) == 0
    assert handle.wait() == 1
    before[1234:6234], before[8192:12288] = 7, 9
    assert open(path, "rb").read() == bytes(before.tolist())


def test_keywords_match_deepspeed(path):
    """Fails if a keyword of DeepSpeed's binding is rejected, including `async` and the misspelled
    `example_tenosr`.
    """
    handle = aio.aio_handle()
    x, y = numbers(1000), torch.zeros(1000)
    with open(path, "wb") as file:
        assert handle.async_pwrite(buffer=x, fd=file.fileno(), file_offset=0) == 0 and handle.wait() == 1
    assert handle.sync_pread(buffer=y, filename=path) == 1 and torch.equal(x, y)
    assert handle.pwrite(buffer=x + 1, filename=path, validate=False, **{"async": True}) == 0 and handle.wait() == 1
    assert handle.pread(buffer=y, filename=path, validate=False, **{"async": False}) == 1 and torch.equal(x + 1, y)
    assert handle.pread(buffer=y, filename=path, validate=False, async_=True) == 0 and handle.wait() == 1
    pinned = handle.new_cpu_locked_tensor(num_elem=4, example_tenosr=x)
    assert pinned.shape == (4,) and handle.free_cpu_locked_tensor(tensor=pinned)
    assert handle.async_pwrite(buffer=x, filename=path) == 0 and handle.wait() == 1
    for wrong in (lambda: handle.async_pwrite(x), lambda: handle.async_pwrite(x, path, fd=1), lambda: handle.async_pwrite(x, fd=path),
                  lambda: handle.async_pwrite(x, 1.5), lambda: handle.pread(y, path, False, True, **{"async": True}),
                  lambda: handle.pread(y, path, False)):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize("dtype", [torch.bool, torch.bfloat16, torch.int64, torch.complex64])
def test_dtypes_and_views(path, dtype):
    """Fails if a transfer ignores strides or lazy conjugation, or rejects an empty tensor."""
    handle = aio.aio_handle()
    x = numbers(600, dtype).view(20, 30)
    handle.sync_pwrite(x.t(), path)
    y = torch.zeros(60, 20, dtype=dtype)
    handle.sync_pread(y[::2], path)
    assert torch.equal(y[::2], x.t()) and not y[1::2].any()
    if dtype.is_complex:
        handle.sync_pwrite((x * (1 + 2j)).conj(), path)
        z = torch.empty_like(x)
        handle.sync_pread(z, path)
        assert torch.equal(z, x * (1 - 2j))
    assert handle.sync_pwrite(torch.empty(0, dtype=dtype), path) == 1


def test_errors(path):
    """Fails if an I/O error is silent or makes the handle unusable."""
    handle = aio.aio_handle()
    for call, code in ((lambda: handle.sync_pread(torch.zeros(4), path), "not_found"),
                       (lambda: handle.sync_pwrite(torch.zeros(4), path, -1), "invalid_argument"),
                       (lambda: handle.sync_pwrite(torch.zeros(4, device="meta"), path), "invalid_argument"),
                       (lambda: aio.aio_handle(0), "invalid_argument"),
                       (lambda: handle.async_pwrite(torch.zeros(4), 123456), "invalid_argument")):
        with pytest.raises(anyaccel.Error) as told:
            call()
        assert told.value.code == code, told.value
    assert not os.path.exists(path)
    handle.sync_pwrite(torch.zeros(4), path)
    with pytest.raises(anyaccel.Error, match="too short"):
        handle.async_pread(torch.zeros(5), path)
    assert handle.wait() == 0


def test_autograd_detects_reads(path):
    """Fails if autograd misses a read into a tensor that it saved, and returns wrong gradients."""
    handle = aio.aio_handle()
    handle.sync_pwrite(numbers(10), path)
    x, w = torch.ones(10), torch.ones(10, requires_grad=True)
    y = (w * x).sum()
    handle.async_pread(x, path)
    handle.wait()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_torch_errors_are_not_converted(path):
    """Fails if one of torch's own errors becomes an anyaccel.Error because of its text, or an error
    gets another error's code.
    """
    from anyaccel.ops import _errors
    handle = aio.aio_handle()
    with pytest.raises(anyaccel.Error):
        handle.sync_pread(torch.zeros(4), path)
    text = "[enforce fail at alloc_cpu.cpp:129] data. DefaultCPUAllocator: not enough memory"

    @_errors.telling(torch.ops.anyaccel.aio_error_code)
    def fails():
        raise RuntimeError(text)

    with pytest.raises(RuntimeError, match="enforce fail") as told:
        fails()
    assert type(told.value) is RuntimeError
    # After two failures, the first one is reported, with its own code.
    handle.sync_pwrite(torch.zeros(4), path)
    slow = aio.aio_handle(4096, 1, True, False, 1)
    big = torch.zeros(5_000_000)
    slow.sync_pwrite(big, path + "2")
    slow.async_pread(big, path + "2")
    slow.async_pread(big, path + "2")
    os.truncate(path + "2", 4096 * 3000)
    slow.cancel()
    with pytest.raises(anyaccel.Error) as told:
        slow.wait()
    assert told.value.code == ("interrupted" if "cancelled" in str(told.value) else "io")
    os.environ["ANYACCEL_AIO_QUEUE"] = "fast"
    try:
        with pytest.raises(anyaccel.Error) as told:  # raised on another thread
            aio.aio_handle()
        assert told.value.code == "invalid_argument"
    finally:
        del os.environ["ANYACCEL_AIO_QUEUE"]


def test_pipes_do_not_block(tmp_path):
    """Fails if opening a pipe blocks until another process opens its other end."""
    handle = aio.aio_handle()
    os.mkfifo(tmp_path / "fifo")
    for name in (str(tmp_path / "fifo"), "/dev/zero"):
        with pytest.raises(anyaccel.Error) as told:
            handle.sync_pread(torch.zeros(4), name)
        assert told.value.code == "invalid_argument"


def test_pinned_memory(path):
    """Fails if is_pinned() is wrong for a pinned tensor or a view of it, or freed memory is not
    reused.
    """
    handle, pin = aio.aio_handle(), pins.pin_handle()
    x = handle.new_cpu_locked_tensor(10000, torch.empty(0, dtype=torch.bfloat16))
    assert x.shape == (10000,) and x.dtype == torch.bfloat16
    assert pin.is_pinned(x[5:50]) and handle.is_pinned(x) and not handle.is_pinned(torch.zeros(4))
    x.copy_(numbers(10000))
    handle.sync_pwrite(x, path)
    y = pin.new_cpu_locked_tensor(10000, x)
    handle.sync_pread(y, path)
    assert torch.equal(x, y)
    assert handle.free_cpu_locked_tensor(y) and not pin.free_cpu_locked_tensor(torch.zeros(4))
    if DEVICE != "cpu":
        return
    assert not pin.is_pinned(y) and not pin.free_cpu_locked_tensor(y)
    address = x.data_ptr()
    assert x.data_ptr() % 4096 == 0 and pin.free_cpu_locked_tensor_by_ptr(address)
    before = pins.stats()
    del x
    z = pin.new_cpu_locked_tensor(10000, y)
    assert z.data_ptr() == address and pins.stats()["reused"] == before["reused"] + 1
    pins.set_limit(pins.stats()["held_bytes"])
    with pytest.raises(anyaccel.Error, match="ANYACCEL_PIN_MEMORY_LIMIT") as told:
        pin.new_cpu_locked_tensor(1 << 30, y)
    assert told.value.code == "out_of_memory"
    pins.set_limit(0)
    pins.trim()


@on_device
def test_device_tensors(path):
    """Fails if a transfer of a device tensor is not ordered with the work on its stream."""
    handle = aio.aio_handle(4096, 4, False, True, 2)
    x = numbers(100000, device=DEVICE)
    x.add_(1)
    assert handle.async_pwrite(x, path) == 0
    x.zero_()  # changes the tensor after the call, so the file must not contain the zeros
    assert handle.wait() == 1
    y = torch.zeros(100000, device=DEVICE)
    assert handle.async_pread(y, path) == 0 and handle.wait() == 1
    assert torch.equal((y * 2).cpu(), (numbers(100000) + 1) * 2)
    torch.ops.anyaccel.aio_read(x, path, 4096, 4, False, True, True)
    assert torch.equal(x.cpu(), y.cpu())


@pytest.mark.skipif(DEVICE != "cpu", reason="the schemas are the same on all devices")
def test_opcheck(path):
    """Fails if a schema does not declare a mutation, or an op lacks its meta kernel."""
    ops = torch.ops.anyaccel
    x = numbers(1000)
    aio.aio_write(x, path, 4096, 4, False, True, False)
    torch.library.opcheck(ops.aio_read.default, (torch.zeros(1000), path, 4096, 4, False, True, False))
    torch.library.opcheck(ops.aio_write.default, (x, path, 4096, 4, False, True, False))
    torch.library.opcheck(ops.deepspeed_memcpy.default, (torch.zeros(1000), x))
    assert ops.pin_memory_new(4, torch.empty(0, device="meta")).device.type == "meta"


def test_requested_queue_is_used(path):
    """Fails if ANYACCEL_AIO_QUEUE is ignored, or an invalid value is accepted."""
    os.environ["ANYACCEL_AIO_QUEUE"] = "threads"
    try:
        handle = aio.aio_handle()
        assert handle.get_queue() == "threads" and "requested" in handle.get_queue_reason()
        handle.sync_pwrite(numbers(100), path)
        os.environ["ANYACCEL_AIO_QUEUE"] = "fast"
        with pytest.raises(anyaccel.Error, match="ANYACCEL_AIO_QUEUE"):
            aio.aio_handle()
    finally:
        del os.environ["ANYACCEL_AIO_QUEUE"]
