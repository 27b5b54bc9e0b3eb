"""Examines files in several processes. A crash of a parser costs one file."""

from __future__ import annotations

import concurrent.futures
import functools
import gc
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool

from .analysis import File, Request, Result, examine

_CHUNK = 8


def available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _examine_all(files: Sequence[File], request: Request) -> list[Result]:
    # Syntax trees consist of many small objects without cycles, on which the garbage collector would
    # spend a fifth of the time.
    gc.disable()
    try:
        return [examine(file, request) for file in files]
    finally:
        gc.enable()


def _executor(jobs: int) -> concurrent.futures.ProcessPoolExecutor:
    # Forked workers start in milliseconds and share the rules.
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else None
    return concurrent.futures.ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context(method))


def _alone(file: File, request: Request) -> Result:
    """Examine a file in a process of its own."""
    with _executor(1) as executor:
        try:
            return executor.submit(examine, file, request).result()
        except BrokenProcessPool:
            return Result(file.shown,
                          file.language.name if file.language else "",
                          error="the parser crashed; the code is probably nested too deeply")


def _size(file: File) -> int:
    try:
        return os.stat(file.path).st_size
    except OSError:
        return 0


def examine_files(files: Sequence[File], request: Request, jobs: int) -> list[Result]:
    """Examine files, and return the results in the same order. jobs: the number of processes; 0
    examines the files in this process."""
    if jobs == 0:
        return _examine_all(files, request)
    # Large files come first, so that no process ends with the largest one.
    order = sorted(files, key=_size, reverse=True)
    count = max(1, min(jobs, len(order)))
    step = max(1, min(_CHUNK, len(order) // (4 * count)))
    chunks = [order[at:at + step] for at in range(0, len(order), step)]
    results: dict[str, Result] = {}
    with _executor(count) as executor:
        work = functools.partial(_examine_all, request=request)
        futures = [executor.submit(work, chunk) for chunk in chunks]
        for future in futures:
            try:
                results.update((result.file, result) for result in future.result())
            except BrokenProcessPool:
                pass  # examined again below, one by one
    for file in order:
        if file.shown not in results:
            results[file.shown] = _alone(file, request)
    return [results[file.shown] for file in files]
