"""Records this process for `anyaccel profile`: ops, kernels, memory, ranges and source lines.

The program's Python hook calls `start()` after `import torch`. A recorder thread splits the
recording into windows and writes each to its own file, so that a program that crashes or is killed
loses only its last window.
"""

import atexit
import os
import sys
import threading
import time
from typing import Any, List, Optional, Tuple

import torch

from .. import _native
from . import clocks, ranges
from .process import Process
from .settings import Settings
from .windows import Lines, Window

_recorder: Optional["Recorder"] = None


class Recorder:
    """Recording of one process."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.process = Process(settings)
        # Held while torch's profiler starts or stops a window, and across fork(). Never held
        # for long while an op is running, because the op may need it.
        self.lock = threading.RLock()
        self.lines = Lines(self.process.folder)
        self.window: Optional[Window] = None
        self.ended: Optional[Window] = None  # not written yet
        self.pauses = 0
        self.finished = False
        self.wake = threading.Event()
        self.events = 0  # number of events written so far
        self.every = 1  # record every n-th window
        self.rate = 0.0  # events per second in the last window
        self.flush_seconds = 0.0  # CPU time of the recorder's thread
        self.thread = threading.Thread(target=self.run, name="anyaccel-profile", daemon=True)

    def open(self) -> None:
        """Start recording, on the thread that imported torch: Kineto must be initialized there."""
        _native.profiler_start_ranges(_shorten)
        self.begin_window()
        self.thread.start()

    def begin_window(self) -> None:
        """Start a window. Requires the lock. A failure ends the recording, not the program."""
        window = Window(len(self.process.windows) + 1, activities())
        try:
            _native.profiler_start_window(*window.activities, self.settings.lines)
        except Exception as error:
            self.fail(error)
            return
        self.window = window

    def fail(self, error: Exception) -> None:
        """Stop recording because of an error, for example a full disk. Later errors are ignored."""
        self.finished = True
        _native.profiler_stop_ranges()
        if "error" in self.process.data:
            return
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        self.process.data["error"] = reason
        print(f"anyaccel profile: the recording of process {os.getpid()} ends: {reason}", file=sys.stderr, flush=True)

    def end_window(self) -> None:
        """End the open window. Requires the lock."""
        if self.window is not None:
            self.window.end()
            self.ended, self.window = self.window, None

    def write_window(self, last: bool = False) -> None:
        """Write the window that has ended. Requires the lock."""
        window, self.ended = self.ended, None
        if window is None:
            return
        began = time.thread_time()
        if not _native.profiler_wait_for_open_ops(1.0):
            _native.profiler_abandon_window()
            self.fail(RuntimeError(f"an op that began in window {window.number} is still running, so the window is lost"))
            return
        try:
            written = window.write(self.process, self.lines, last)
        except Exception as error:
            self.fail(error)
            return
        self.events += written
        self.rate = written / max(0.001, (window.times[1] - window.times[0]) / 1e9)
        self.flush_seconds += time.thread_time() - began
        self.process.data["overhead_ns"] = int(self.flush_seconds * 1e9)
        try:
            self.process.update()
        except Exception as error:
            self.fail(error)

    def run(self) -> None:
        """Split the recording into windows until the program ends."""
        while not self.finished:
            self.wake.wait(self.settings.poll)
            if self.finished or self.pauses:
                continue
            # The program may have registered a device type, for example with get_accelerator().
            window = self.window  # the program's threads may pause the recording meanwhile
            if window is not None and (window.full(self.settings) or window.activities != activities()):
                with self.lock:
                    if self.window is window and not self.finished:
                        self.end_window()
                # A long op may need the lock, because it may fork or use torch's profiler.
                while self.ended is not None and not self.finished and not _native.profiler_wait_for_open_ops(0.5):
                    pass
                with self.lock:
                    self.write_window()
                self.rest()
            with self.lock:
                if self.window is None and not self.pauses and not self.finished:
                    self.begin_window()

    def rest(self) -> None:
        """Pause the recording for a while if the limits require it."""
        began = time.monotonic()
        seconds = self.flush_seconds_over_budget()
        if self.events >= self.settings.max_events:
            skipped = self.every
            self.every = min(2 * self.every, 1 << 10)
            self.process.data["dropped_windows"] += skipped
            seconds = max(seconds, skipped * self.settings.window)
        if seconds == 0:
            return
        until = began + seconds
        while not self.finished and time.monotonic() < until:
            self.wake.wait(min(0.1, max(0.0, until - time.monotonic())))
        # Ops are not counted while nothing observes them.
        self.process.data["dropped_events"] += int(self.rate * (time.monotonic() - began))

    def flush_seconds_over_budget(self) -> float:
        """Return how long to rest so that flushing stays within its share of the machine's time."""
        elapsed = time.monotonic() - self.process.began
        share = self.settings.flush_share * len(os.sched_getaffinity(0))
        over = self.flush_seconds - self.settings.flush_credit - share * elapsed
        return max(0.0, over / share)

    def pause(self, reason: str) -> None:
        """Stop recording, for example because the program starts torch's profiler itself."""
        with self.lock:
            self.pauses += 1
            if self.pauses > 1:
                return
            try:
                self.end_window()
                self.write_window()
                self.process.pause(reason)
            except Exception as error:  # must not reach the program
                self.fail(error)

    def resume(self) -> None:
        with self.lock:
            self.pauses = max(0, self.pauses - 1)
            if self.pauses > 0 or self.finished:
                return
            try:
                self.process.resume()
            except Exception as error:  # must not reach the program
                self.fail(error)
                return
            self.begin_window()

    def finish(self, kind: str = "exit", detail: str = "") -> None:
        """Write the last window. Idempotent."""
        if self.process.data["end_ns"] is not None or self.process.data["exit"]["kind"] == "fork":
            return
        self.finished = True
        self.wake.set()
        with self.lock:
            self.end_window()
            self.write_window(last=True)
            try:
                self.process.finish(kind, detail)
            except OSError as error:
                self.fail(error)
        self.thread.join(5.0)

    def in_child(self) -> None:
        """Stop recording in a forked child, because torch's profiler does not support fork()."""
        self.finished = True
        self.window = self.ended = None
        self.lock = threading.RLock()
        _native.profiler_forget_after_fork()
        self.process.forked()


def activities() -> Tuple[List[int], bool]:
    """Return what torch's profiler can record now, and whether that includes a PrivateUse1 device."""
    supported = torch.autograd._supported_activities()
    private_use = getattr(torch.profiler.ProfilerActivity, "PrivateUse1", None)
    # Without a PrivateUse1 device, torch has no module with the name of its type.
    named = hasattr(torch, torch._C._get_privateuse1_backend_name())
    return sorted(int(activity) for activity in supported), named and private_use in supported  # type: ignore[call-overload]


_INTERNAL = tuple(os.path.join(os.path.dirname(os.path.abspath(module.__file__ or "")), "")
                  for module in (torch, sys.modules[__package__.rpartition(".")[0]]))


def _shorten(file: str) -> str:
    """Return the name of a source file in results; "" if its lines are not the program's."""
    if file.startswith("<frozen") or file.startswith(_INTERNAL):
        return ""
    for folder in (os.getcwd(), *sys.path):
        prefix = os.path.join(folder, "") if folder else ""
        if prefix and file.startswith(prefix):
            return file[len(prefix):]
    return file


def _wrap_excepthook(recorder: Recorder) -> None:
    before = sys.excepthook

    def excepthook(kind: Any, value: Any, trace: Any) -> None:
        recorder.process.failed(f"{kind.__name__}: {value}")
        before(kind, value, trace)

    sys.excepthook = excepthook


def start() -> None:
    """Record this process, if `anyaccel profile` started it. Never raises."""
    global _recorder
    if _recorder is not None or not os.environ.get("ANYACCEL_PROFILE_DIR"):
        return
    try:
        recorder = Recorder(Settings.from_environment())
        recorder.open()
    except Exception as error:  # the program must run anyway
        print(f"anyaccel profile: cannot record process {os.getpid()}: {error}", file=sys.stderr, flush=True)
        return
    _recorder = recorder
    ranges.install(recorder)
    clocks.install(recorder.process)
    _wrap_excepthook(recorder)
    atexit.register(recorder.finish)
    # A forked child replaces the lock, so the functions must look it up for each fork().
    os.register_at_fork(before=lambda: recorder.lock.acquire(), after_in_parent=lambda: recorder.lock.release(),
                        after_in_child=recorder.in_child)
