"""Examines files in several processes. A file that crashes a parser, or takes too long, does not
affect the others.
"""

from __future__ import annotations

import collections
import gc
import multiprocessing
import multiprocessing.connection
import os
import signal
from collections.abc import Sequence

from .analysis import File, Request, Result, examine, write_fixed
from .errors import Interrupted
from .write import SIGNALS, uninterrupted

_SECONDS = 20.0  # CPU time limit per file; parsers take milliseconds
_COLLECT = 16  # files after which a worker collects garbage
_PATIENCE = 5.0  # seconds that a worker may take to exit
_WRITE = 30.0  # seconds that a worker may take to write a file


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _work(connection, request: Request, parent: int) -> None:
    """Examine the files that the parent sends until it sends None. SIGTERM ends the process, but not
    while it writes a file and reports the result."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)  # the default action ends the process even while native code runs
    # Syntax trees consist of many small objects without cycles, and the garbage collector would
    # spend a fifth of the run time on them.
    gc.disable()
    done = 0
    while True:
        while not connection.poll(_PATIENCE):
            if os.getppid() != parent:
                return
        try:
            file = connection.recv()
        except EOFError:
            return
        if file is None:
            return
        signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
        result = examine(file, request)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        with uninterrupted():
            write_fixed(file, request, result)
            connection.send(result)
        done += 1
        if done % _COLLECT == 0:
            gc.collect()


class _Worker:
    """A process that examines one file at a time."""

    def __init__(self, request: Request):
        # Forked workers start in milliseconds and share the rules.
        context = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else None)
        self.connection, child = context.Pipe()
        self.process = context.Process(target=_work, args=(child, request, os.getpid()), daemon=True)
        with uninterrupted():  # a new process inherits this one's signal handlers
            self.process.start()
        child.close()
        self.file: File | None = None

    def send(self, file: File | None) -> None:
        self.file = file
        try:
            self.connection.send(file)
        except OSError:
            pass  # result() reports the end of the process

    def result(self) -> tuple[Result, bool]:
        """The result for the file, and whether the process has ended."""
        try:
            return self.connection.recv(), False
        except (EOFError, OSError):
            self.process.join()
        reason = "the parser crashed; the code is probably nested too deeply"
        if self.process.exitcode == -signal.SIGVTALRM:
            reason = f"the analysis took longer than {_SECONDS:g} s"
        return Result(self.file.shown, self.file.language.name if self.file.language else "", error=reason), True

    def stop(self) -> Result | None:
        """End the process. Returns its result if it has finished or is writing its file."""
        self.process.terminate()
        result = None
        while ready := multiprocessing.connection.wait([self.connection, self.process.sentinel], _WRITE):
            if self.connection not in ready:
                break
            try:
                result = self.connection.recv()
            except (EOFError, OSError):
                break
        self._end()
        return result

    def close(self) -> None:
        # Closing the connection is not enough, because workers inherit each other's connections.
        self.send(None)
        self._end()

    def _end(self) -> None:
        self.connection.close()
        self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _size(file: File) -> int:
    try:
        return os.stat(file.path).st_size
    except OSError:
        return 0


def examine_files(files: Sequence[File], request: Request, jobs: int) -> list[Result]:
    """Examine files, write the fixed ones if requested, and return the results in the same order.
    jobs: the number of processes; 0 examines the files in this process. Raises Interrupted."""
    results: dict[str, Result] = {}
    try:
        if jobs == 0:
            for file in files:
                result = examine(file, request)
                with uninterrupted():
                    write_fixed(file, request, result)
                    results[file.shown] = result
        else:
            _in_processes(files, request, jobs, results)
    except KeyboardInterrupt:
        raise Interrupted(sum(result.written for result in results.values())) from None
    return [results[file.shown] for file in files]


def _in_processes(files: Sequence[File], request: Request, jobs: int, results: dict[str, Result]) -> None:
    # Start with the largest files, so that no process works on one alone at the end.
    queue = collections.deque(sorted(files, key=_size, reverse=True))
    busy: dict = {}
    try:
        while queue and len(busy) < jobs:
            worker = _Worker(request)
            busy[worker.connection] = worker
            worker.send(queue.popleft())
        while busy:
            for connection in multiprocessing.connection.wait(list(busy)):
                worker = busy[connection]
                with uninterrupted():
                    result, ended = worker.result()
                    results[worker.file.shown] = result
                if ended or not queue:
                    del busy[connection]
                    worker.close()
                if ended and queue:
                    worker = _Worker(request)
                    busy[worker.connection] = worker
                if queue:
                    worker.send(queue.popleft())
    except KeyboardInterrupt:
        # A second Ctrl-C must not leave a process behind. Workers end at once unless they write.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for worker in busy.values():
            if result := worker.stop():
                results[result.file] = result
        raise
    except BaseException:
        for worker in busy.values():
            worker.close()
        raise
