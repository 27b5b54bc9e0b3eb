"""pytest plugin that keeps one failed test of DeepSpeed's suite from aborting or stalling the
session.

DeepSpeed's tests run in a pool of worker processes, one per rank. If one rank fails, the others
wait in a collective. After its time limit, DeepSpeed aborts the session, and waits for these
workers forever.
"""
import multiprocessing
import multiprocessing.pool
import sys

import pytest

# The fork server imports these modules once, because importing them takes seconds. torch imports
# torch._dynamo at the first op on a meta tensor.
multiprocessing.set_forkserver_preload(["deepspeed", "torch._dynamo"])

_set = multiprocessing.pool.MapResult._set


def _set_or_fail(self, i, success_result):
    """Report the first rank's failure without waiting for the other ranks."""
    _set(self, i, success_result)
    if not self._success:
        self._event.set()


def _end_of_session(message, returncode=None):
    pytest.fail(message)


def pytest_collection_finish(session):
    common = sys.modules.get("unit.common")
    if common is None:
        return
    multiprocessing.pool.MapResult._set = _set_or_fail
    # DeepSpeed calls this for a test that exceeds the time limit.
    pytest.exit = _end_of_session
    close = common.DistributedExec._close_pool

    def close_pool(self, pool, num_procs, force=False):
        if sys.exc_info()[0] is None:
            close(self, pool, num_procs, force)
        else:
            pool.terminate()
            self._pool_cache.pop(num_procs, None)

    common.DistributedExec._close_pool = close_pool
