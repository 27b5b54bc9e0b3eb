"""Lifetimes in async_io: how long transfers hold tensors, threads and the GIL. Also runs on sim."""

import contextlib
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest
import torch

import anyaccel
from async_io_numbers import aio, numbers, path  # noqa: F401


@contextlib.contextmanager
def counting():
    """Increment a counter on another thread until the `with` block ends. Yield a function that
    returns the count.
    """
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield lambda: counted[0]
    finally:
        stop.set()
        thread.join()


def test_replaced_storage_stays_alive(path):
    """Fails if replacing a tensor's storage during a write frees the memory that the write still
    reads.
    """
    handle = aio.aio_handle(1 << 20, 4, False, True, 1)
    for _ in range(3):
        x = numbers(16_000_000)
        handle.async_pwrite(x, path)
        x.data = torch.empty(0)
        assert handle.wait() == 1
        assert torch.from_file(path, size=16_000_000).equal(numbers(16_000_000))


def test_cancel_interrupts_wait(path):
    """Fails if cancel() does not interrupt a wait() on another thread."""
    handle = aio.aio_handle(4096, 1, True, False, 1)
    x = torch.zeros(50_000_000)
    handle.async_pwrite(x, path)
    canceller = threading.Timer(0.05, handle.cancel)
    canceller.start()
    with pytest.raises(anyaccel.Error, match="cancel"):
        handle.wait()
    canceller.join()


def test_wait_keeps_buffers_and_releases_the_gil(tmp_path):
    """Fails if a buffer is freed while a write uses it, or wait() holds the GIL."""
    handle = aio.aio_handle(4096, 1, True, False, 1)
    for i in range(4):
        # The handle holds the only reference.
        handle.async_pwrite(numbers(2_000_000), str(tmp_path / str(i)))
    with counting() as counted:
        start = counted()
        assert handle.wait() == 4
        assert counted() - start > 10
    got = torch.empty(2_000_000)
    handle.sync_pread(got, str(tmp_path / "3"))
    assert torch.equal(got, numbers(2_000_000))


def slow_writes(tmp_path, handle):
    """Start several slow writes, and return the request of the last one."""
    for i in range(4):
        handle.async_pwrite(numbers(2_000_000), str(tmp_path / str(i)))
    return handle.start_write(numbers(2_000_000), str(tmp_path / "own"))


@pytest.mark.parametrize("last", ["handle", "request"])
def test_destruction_releases_the_gil(tmp_path, last):
    """Fails if destroying the last owner of the I/O threads holds the GIL until the threads have
    finished.
    """
    handle = aio.aio_handle(4096, 1, True, False, 1)
    request = slow_writes(tmp_path, handle)
    with counting() as counted:
        if last == "handle":
            request = None  # the handle still finishes its transfers
        start, begin = counted(), time.perf_counter()
        handle = request = None
        during, took = counted() - start, time.perf_counter() - begin
    assert during > 10, f"{during} in {took} s"
    for name in ("0", "3", "own"):
        assert torch.from_file(str(tmp_path / name), size=2_000_000).equal(numbers(2_000_000))


def test_close(tmp_path):
    """Fails if leaving the `with` block does not wait for transfers and report their failures.
    Afterwards, a closed handle must reject calls.
    """
    with aio.aio_handle(4096, 1, True, False, 1) as handle:
        request = slow_writes(tmp_path, handle)
    assert torch.from_file(str(tmp_path / "3"), size=2_000_000).equal(numbers(2_000_000))
    request.wait()
    assert torch.from_file(str(tmp_path / "own"), size=2_000_000).equal(numbers(2_000_000))
    handle.close()
    assert handle.get_block_size() == 4096
    for call in (handle.wait, handle.cancel, lambda: handle.sync_pread(torch.zeros(4), str(tmp_path / "0"))):
        with pytest.raises(anyaccel.Error) as told:
            call()
        assert told.value.code == "invalid_state"
    with pytest.raises(anyaccel.Error, match="cancel"):
        with aio.aio_handle(4096, 1, True, False, 1) as handle:
            slow_writes(tmp_path, handle).cancel()
            handle.cancel()


@pytest.mark.parametrize("way", ["async_pwrite", "async_pread", "start_write", "start_read"])
def test_unawaited_transfer_releases_its_tensor(path, way):
    """Fails if a completed transfer holds its tensor until wait() is called."""
    handle = aio.aio_handle()
    handle.sync_pwrite(numbers(1000), path)

    class Owner(bytearray):
        pass

    owner = Owner(4000)
    gone = weakref.ref(owner)
    request = getattr(handle, way)(torch.frombuffer(owner, dtype=torch.float32), path)
    del owner
    for _ in range(500):
        if gone() is None:
            break
        time.sleep(0.01)
    assert gone() is None
    del request
    assert handle.wait() == (1 if way.startswith("async") else 0)


def test_requests(path):
    """Fails if a request cannot be waited for separately from its handle, or never completes after
    cancellation.
    """
    handle = aio.aio_handle(4096, 1, True, False, 1)
    x = numbers(1_000_000)
    request = handle.start_write(x, path)
    assert handle.wait() == 0
    request.wait()
    assert request.done()
    request.wait()
    y = torch.zeros_like(x)
    read = handle.start_read(y, path)
    del handle
    read.wait()
    assert torch.equal(x, y)
    handle = aio.aio_handle(4096, 1, True, False, 1)
    requests = [handle.start_write(x, path) for _ in range(8)]
    handle.async_pwrite(x, path)
    requests[-1].cancel()
    handle.cancel()
    with pytest.raises(anyaccel.Error) as told:
        requests[-1].wait()
    assert told.value.code == "interrupted"
    with pytest.raises(anyaccel.Error, match="cancelled"):
        handle.wait()
    for request in requests[:-1]:
        request.wait()


def test_fork(path):
    """Fails if the parent's handle hangs in a forked child instead of raising an error."""
    code = f"""
import os, signal, anyaccel, torch
aio = anyaccel.get_accelerator().create_op_builder("AsyncIOBuilder").load()
handle = aio.aio_handle()
child = os.fork()
if child == 0:
    signal.alarm(60)  # for the call alone: a program's start takes minutes on a busy machine
    try:
        handle.sync_pwrite(torch.zeros(4), {path!r})
    except anyaccel.Error as error:
        os._exit(0 if error.code == "invalid_state" else 1)
    os._exit(2)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))


@pytest.mark.parametrize("last", ["handle", "handle, request"])
def test_interpreter_exit(path, last):
    """Fails if a handle or request that is still alive at interpreter exit loses writes, crashes or
    prints an error. A forked child with a copy of it must also exit cleanly.
    """
    code = f"""
import os, sys, anyaccel, torch
aio = anyaccel.get_accelerator().create_op_builder("AsyncIOBuilder").load()
handle = aio.aio_handle()
request = handle.start_write(torch.full((1 << 20,), 7, dtype=torch.uint8), {path!r})
handle.async_pwrite(torch.full((1 << 20,), 8, dtype=torch.uint8), {path!r}, 1 << 20)
kept = {last}
child = os.fork()
if child == 0:
    sys.exit(3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
"""
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ), capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with open(path, "rb") as file:
        assert file.read() == b"\7" * (1 << 20) + b"\10" * (1 << 20)
