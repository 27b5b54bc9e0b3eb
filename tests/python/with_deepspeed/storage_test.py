"""Asynchronous I/O, byte views and pinned memory: DeepSpeed's classes on AnyAccel's ops."""

import importlib.util

import pytest

if importlib.util.find_spec("deepspeed") is None:
    pytest.skip("deepspeed is not installed", allow_module_level=True)

import anyaccel.deepspeed  # noqa: E402,F401
import torch  # noqa: E402

from deepspeed.accelerator import get_accelerator  # noqa: E402
from deepspeed.io.fast_file_writer import FastFileWriter, FastFileWriterConfig  # noqa: E402
from deepspeed.ops.aio import AsyncIOBuilder  # noqa: E402
from deepspeed.ops.op_builder import PinMemoryBuilder, UtilsBuilder  # noqa: E402
from deepspeed.runtime.swap_tensor import utils as swapping  # noqa: E402

COUNT = 1 << 18  # float32: 1 MiB, the smallest size that DeepSpeed swaps


@pytest.fixture
def handle():
    return AsyncIOBuilder().load().aio_handle(block_size=1 << 17, queue_depth=8, single_submit=False, overlap_events=True,
                                              intra_op_parallelism=2)


def test_swap_out_and_in(handle, tmp_path):
    # Fails if the calls of DeepSpeed's swappers do not write and read tensors correctly, or wait()
    # returns a different count than the swappers expect.
    out = [get_accelerator().pin_memory(torch.randn(COUNT)) for _ in range(3)]
    back = [handle.new_cpu_locked_tensor(COUNT, out[0]) for _ in out]
    paths = [str(tmp_path / f"{index}.swp") for index in range(3)]
    swapping.swap_out_tensors(handle, out, paths)
    assert handle.wait() == 3
    swapping.swap_in_tensors(handle, back, paths)
    assert handle.wait() == 3
    for mine, theirs in zip(back, out):
        assert torch.equal(mine, theirs) and handle.is_pinned(mine)
        assert handle.free_cpu_locked_tensor(mine)


def test_handle_settings(handle):
    # Fails if a getter that DeepNVMe's tools and writers use is missing or returns the wrong
    # setting.
    assert (handle.get_block_size(), handle.get_queue_depth(), handle.get_single_submit(), handle.get_overlap_events(),
            handle.get_intra_op_parallelism()) == (1 << 17, 8, False, True, 2)
    assert handle.get_alignment() > 0


def test_unreadable_file_raises(handle, tmp_path):
    # Fails if reading a missing file terminates the process, or returns -1 instead of raising an
    # error.
    with pytest.raises(anyaccel.Error):
        handle.sync_pread(handle.new_cpu_locked_tensor(COUNT, torch.empty(0)), str(tmp_path / "none"))


def test_swap_buffer_pool(handle, tmp_path):
    # Fails if DeepSpeed's buffer pool cannot write and read parts of a buffer that the handle
    # allocated.
    pool = swapping.SwapBufferPool([handle.new_cpu_locked_tensor(2 * COUNT, torch.empty(0))], handle)
    tensors, paths = [torch.randn(COUNT), torch.randn(COUNT - 100)], [str(tmp_path / name) for name in "ab"]
    for tensor, path in zip(tensors, paths):
        pool.insert_tensor(tensor, path, COUNT)
    pool.swap_out(handle)
    pool.reset()
    for tensor, path in zip(tensors, paths):
        pool.allocate_tensor(tensor.numel(), path, COUNT)
    pool.buffers[0].buffer.zero_()
    pool.swap_in(handle)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(pool.get_compute_tensors(), tensors))


@pytest.mark.parametrize("double", [True, False])
def test_fast_file_writer(handle, tmp_path, double):
    # Fails if DeepSpeed's writer, which writes a tensor's bytes to an open descriptor at an offset,
    # does not produce a valid checkpoint.
    buffer = get_accelerator().pin_memory(torch.zeros(1 << 20, dtype=torch.uint8))
    path = str(tmp_path / "state.pt")
    state = {"weights": torch.randn(700, 999), "half": torch.randn(33).bfloat16(), "number": 7}
    writer = FastFileWriter(path, FastFileWriterConfig(dnvme_handle=handle, pinned_tensor=buffer, double_buffer=double))
    torch.save(state, writer)
    writer.close()
    loaded = torch.load(path)
    assert loaded["number"] == 7 and torch.equal(loaded["weights"], state["weights"]) and torch.equal(loaded["half"], state["half"])


def test_byte_views():
    # Fails if a single tensor or a list of tensors is rejected. DeepSpeed's writer and swappers
    # pass both.
    cast = UtilsBuilder().load().cast_to_byte_tensor
    tensor = torch.arange(5, dtype=torch.int32)
    assert torch.equal(cast(tensor), tensor.view(torch.uint8)) and cast(tensor).data_ptr() == tensor.data_ptr()
    assert [each.numel() for each in cast([tensor, tensor.double()])] == [20, 40]


def test_native_pin_memory_backend(monkeypatch):
    # Fails if DeepSpeed's native pin-memory backend does not work with the op's memory, including
    # views.
    monkeypatch.setenv("DS_PIN_MEMORY_BACKEND", "native")
    accelerator = get_accelerator()
    values = torch.randn(17, 3)
    pinned = accelerator.pin_memory(values)
    assert torch.equal(pinned, values) and accelerator.is_pinned(pinned) and accelerator.is_pinned(pinned[4:])
    assert PinMemoryBuilder().load().pin_handle().is_pinned(pinned)
    empty = accelerator.pin_empty(5, 2, dtype=torch.bfloat16)
    assert empty.shape == (5, 2) and empty.dtype == torch.bfloat16
    accelerator.unpin_memory(pinned)
    assert not accelerator.is_pinned(torch.zeros(4))


def test_native_backend_unpins(monkeypatch, caplog):
    # Fails if DeepSpeed's native backend warns about memory that is already pinned, or unpinning
    # has no effect.
    import deepspeed.utils
    monkeypatch.setenv("DS_PIN_MEMORY_BACKEND", "native")
    monkeypatch.setattr(deepspeed.utils.logger, "propagate", True)
    accelerator, tensor = get_accelerator(), torch.arange(32.0).reshape(4, 8)
    pinned, empty = accelerator.pin_memory(tensor), accelerator.pin_empty(3, dtype=torch.float32, device="cpu")
    view = pinned.reshape(-1).narrow(0, 8, 8)
    assert torch.equal(pinned, tensor) and accelerator.is_pinned(pinned) and accelerator.is_pinned(view)
    assert accelerator.unpin_memory(pinned) is True and accelerator.unpin_memory(empty) is True
    assert not accelerator.is_pinned(pinned) and not accelerator.is_pinned(view)
    assert accelerator.unpin_memory(pinned) is False
    again = accelerator.pin_memory(tensor)
    assert accelerator.is_pinned(again) and torch.equal(again, tensor)
    assert "registration failed" not in caplog.text
