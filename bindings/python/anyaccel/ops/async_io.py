"""What DeepSpeed's AsyncIOBuilder().load() has, and requests of one's own. The manual is include/anyaccel/ops/async_io.h."""

import operator
import os
import sys
import weakref

import torch

from ._bind import Ops
from ._errors import telling
from ._names import also_named
from .pin_memory import pin_handle

_ops = Ops("AsyncIOBuilder")
_pins = pin_handle()
_telling = telling(lambda message: _ops.aio_error_code(message))


class AsyncIORequest:
    """One read or write that was started by itself."""

    def __init__(self, request):
        self._request = request

    def __del__(self, _ends=sys.is_finalizing):
        if not _ends():  # torch's classes cannot be called then, and the threads have ended
            self._request.release()  # without Python's lock, which the going of the last owner of threads would hold

    @_telling
    def wait(self):
        """Returns when it is done; what is read is in the tensor then. Raises what went wrong."""
        self._request.wait()

    def done(self):
        return self._request.done()

    def cancel(self):
        """Gives up what the system has not begun; wait() then raises `interrupted`."""
        self._request.cancel()


@_telling
def _end(handle, owner):
    if os.getpid() == owner:  # a child by fork has no threads of it
        handle.close()


class aio_handle:
    """DeepSpeed's handle: same names, arguments and results, but what goes wrong is an `anyaccel.Error` and not -1 or the
    program's end. Calls release Python's lock."""

    @_telling
    def __init__(self, block_size=1024 * 1024, queue_depth=128, single_submit=False, overlap_events=False,
                 intra_op_parallelism=1):
        _ops.aio_error_code  # loads the op
        self._handle = torch.classes.anyaccel.AsyncIOHandle(block_size, queue_depth, single_submit, overlap_events,
                                                            intra_op_parallelism)
        # Also at the interpreter's exit, while it can still call and tell.
        self._end = weakref.finalize(self, _end, self._handle, os.getpid())

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    @_telling
    def close(self):
        """Finishes all that was begun with async, raises the first failure, and ends the threads; also the end of a `with`, and of
        the handle itself. Afterwards all but getters raise `invalid_state`. A second time it does nothing."""
        self._end.detach()
        self._handle.close()

    def get_block_size(self):
        return self._handle.block_size()

    def get_queue_depth(self):
        return self._handle.queue_depth()

    def get_single_submit(self):
        return self._handle.single_submit()

    def get_overlap_events(self):
        return self._handle.overlap_events()

    def get_intra_op_parallelism(self):
        return self._handle.intra_op_parallelism()

    def get_alignment(self):
        return self._handle.alignment()

    def get_queue(self):
        """How the system is asked: "io_uring", "libaio" or "threads"."""
        return self._handle.queue()

    def get_queue_reason(self):
        """Why it is that one."""
        return self._handle.queue_reason()

    @_telling
    def read(self, buffer, filename, validate, file_offset=0):
        self._handle.transfer(buffer, filename, False, validate, False, file_offset)
        return 0

    @_telling
    def write(self, buffer, filename, validate, file_offset=0):
        self._handle.transfer(buffer, filename, True, validate, False, file_offset)
        return 0

    @also_named(**{"async": "async_"})
    @_telling
    def pread(self, buffer, filename, validate, async_, file_offset=0):
        return self._handle.transfer(buffer, filename, False, validate, async_, file_offset)

    @also_named(**{"async": "async_"})
    @_telling
    def pwrite(self, buffer, filename, validate, async_, file_offset=0):
        return self._handle.transfer(buffer, filename, True, validate, async_, file_offset)

    @_telling
    def sync_pread(self, buffer, filename, file_offset=0):
        return self._handle.transfer(buffer, filename, False, False, False, file_offset)

    @_telling
    def sync_pwrite(self, buffer, filename, file_offset=0):
        return self._handle.transfer(buffer, filename, True, False, False, file_offset)

    @_telling
    def async_pread(self, buffer, filename, file_offset=0):
        return self._handle.transfer(buffer, filename, False, False, True, file_offset)

    @_telling
    def async_pwrite(self, buffer, filename=None, file_offset=0, *, fd=None):
        """Write to a file, given by name or as `fd`, a descriptor opened for writing. A descriptor may also be passed as `filename`."""
        if (filename is None) == (fd is None):
            raise TypeError("async_pwrite() takes either a file name or a descriptor (fd)")
        if fd is None and isinstance(filename, str):
            return self._handle.transfer(buffer, filename, True, False, True, file_offset)
        return self._handle.write_descriptor(buffer, operator.index(filename if fd is None else fd), file_offset)

    @_telling
    def wait(self):
        """Wait for all asynchronous operations and return their number. Raises the first failure."""
        return self._handle.wait()

    @_telling
    def cancel(self):
        """Cancel asynchronous operations that the system has not started yet; wait() then reports them."""
        self._handle.cancel()

    @_telling
    def start_read(self, buffer, filename, file_offset=0):
        """Start a read and return a separate request with wait(), done() and cancel(), which the handle's wait() does not include."""
        return AsyncIORequest(self._handle.start(buffer, filename, False, file_offset))

    @_telling
    def start_write(self, buffer, filename, file_offset=0):
        """Start a write; see start_read()."""
        return AsyncIORequest(self._handle.start(buffer, filename, True, file_offset))

    @also_named(example_tenosr="example_tensor")  # DeepSpeed's spelling
    def new_cpu_locked_tensor(self, num_elem, example_tensor):
        return _pins.new_cpu_locked_tensor(num_elem, example_tensor)

    def free_cpu_locked_tensor(self, tensor):
        return _pins.free_cpu_locked_tensor(tensor)

    def is_pinned(self, buffer):
        return _pins.is_pinned(buffer)


@_telling
def aio_read(buffer, filename, block_size, queue_depth, single_submit, overlap_events, validate):
    _ops.aio_read(buffer, filename, block_size, queue_depth, single_submit, overlap_events, validate)
    return 0


@_telling
def aio_write(buffer, filename, block_size, queue_depth, single_submit, overlap_events, validate):
    _ops.aio_write(buffer, filename, block_size, queue_depth, single_submit, overlap_events, validate)
    return 0


@_telling
def deepspeed_memcpy(dest, src):
    _ops.deepspeed_memcpy(dest, src)
    return 0
