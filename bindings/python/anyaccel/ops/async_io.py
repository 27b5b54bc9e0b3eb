"""The functions that DeepSpeed's AsyncIOBuilder().load() returns, and requests that can be waited
for separately.

See include/anyaccel/ops/async_io.h.
"""

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
    """A read or write that was started as a separate request."""

    def __init__(self, request):
        self._request = request

    def __del__(self, _ends=sys.is_finalizing):
        if not _ends():  # at exit, torch's classes cannot be called, and the threads have exited
            # release() waits with the GIL released. The last owner's destructor would hold the GIL
            # while waiting.
            self._request.release()

    @_telling
    def wait(self):
        """Wait until the request has completed, and raise its error.

        After a read, the data is in the tensor.
        """
        self._request.wait()

    def done(self):
        return self._request.done()

    def cancel(self):
        """Cancel the parts that the system has not started; wait() then raises `interrupted`."""
        self._request.cancel()


@_telling
def _end(handle, owner):
    if os.getpid() == owner:  # forked children do not have the handle's threads
        handle.close()


class aio_handle:
    """Counterpart of DeepSpeed's handle, with the same names, arguments and results.

    Failures raise `anyaccel.Error` instead of returning -1 or terminating the program. Calls
    release the GIL.
    """

    @_telling
    def __init__(self, block_size=1024 * 1024, queue_depth=128, single_submit=False, overlap_events=False,
                 intra_op_parallelism=1):
        _ops.aio_error_code  # loads the op
        self._handle = torch.classes.anyaccel.AsyncIOHandle(block_size, queue_depth, single_submit, overlap_events,
                                                            intra_op_parallelism)
        # Also runs at the interpreter's exit, while calls and error messages are still possible.
        self._end = weakref.finalize(self, _end, self._handle, os.getpid())

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    @_telling
    def close(self):
        """Wait for all asynchronous operations, stop the threads, and raise the first failure.

        Leaving a `with` block and destroying the handle do the same. Afterwards, calling close()
        again does nothing, and all methods except getters raise `invalid_state`.
        """
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
        """Return the I/O interface: "io_uring", "libaio" or "threads"."""
        return self._handle.queue()

    def get_queue_reason(self):
        """Return the reason why the interface that get_queue() returns was chosen."""
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
        """Write to a file given by name, or by `fd`, a file descriptor opened for writing.

        A descriptor may also be passed as `filename`.
        """
        if (filename is None) == (fd is None):
            raise TypeError("async_pwrite() takes either a file name or a descriptor (fd)")
        if fd is None and isinstance(filename, str):
            return self._handle.transfer(buffer, filename, True, False, True, file_offset)
        return self._handle.write_descriptor(buffer, operator.index(filename if fd is None else fd), file_offset)

    @_telling
    def wait(self):
        """Wait for all asynchronous operations and return their number.

        Raises the first failure.
        """
        return self._handle.wait()

    @_telling
    def cancel(self):
        """Cancel asynchronous operations that the system has not started yet; wait() then reports
        the cancellation.
        """
        self._handle.cancel()

    @_telling
    def start_read(self, buffer, filename, file_offset=0):
        """Start a read and return a separate request with wait(), done() and cancel(). The handle's
        wait() does not wait for it.
        """
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
