"""The file process.json, which describes a recorded process."""

import json
import os
import platform
import socket
import sys
import threading
import time
from typing import Any, Dict, List, Optional

import torch

from .. import _native
from .settings import Settings


# Environment variables that select the accelerator. They are recorded, because its peak performance
# is measured after the program has ended.
_PEAK_VARIABLES = ("DS_ACCELERATOR", "ANYACCEL_SIM_LIBRARY", "SIM_STANDS_IN_FOR", "SIM_DEVICES", "SIM_MEMORY",
                   "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")


def _number(name: str) -> Optional[int]:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


class Process:
    """Description of this process. Every change is written to process.json."""

    def __init__(self, settings: Settings) -> None:
        self.began = time.monotonic()
        self.settings = settings
        self._lock = threading.Lock()
        self._name_folder()
        self.windows: List[List[int]] = []
        self.data: Dict[str, Any] = {
            "version": 1, "host": socket.gethostname(), "pid": os.getpid(), "parent": os.getppid(),
            "argv": list(getattr(sys, "orig_argv", sys.argv)), "executable": sys.executable,
            "rank": None, "local_rank": None, "world_size": None,
            "accelerator": "cpu", "device_type": "cpu", "device_name": platform.machine(), "device_count": 0,
            "torch": torch.__version__, "python": platform.python_version(),
            "start_ns": time.time_ns(), "end_ns": None, "clock_offset_ns": 0, "exit": {"kind": "running", "detail": ""},
            "dropped_events": 0, "dropped_windows": 0, "limits": {"max_events": settings.max_events}, "overhead_ns": 0,
            "peak": None, "windows": self.windows, "pauses": [],
            "environment": {name: os.environ[name] for name in _PEAK_VARIABLES if name in os.environ}}
        self.update()

    def _name_folder(self) -> None:
        # Containers may have the same host name and PIDs.
        base = os.path.join(self.settings.folder, "raw", f"{socket.gethostname()}-{os.getpid()}")
        self.folder = base
        for number in range(2, 1000):
            try:
                os.makedirs(self.folder)
                return
            except FileExistsError:
                self.folder = f"{base}-{number}"

    def update(self) -> None:
        """Refresh the fields that may have changed, and write the file."""
        data = self.data
        for key, name in (("rank", "RANK"), ("local_rank", "LOCAL_RANK"), ("world_size", "WORLD_SIZE")):
            data[key] = _number(name) if data[key] is None else data[key]
        self._find_accelerator()
        self.write()

    def write(self) -> None:
        with self._lock:
            path = os.path.join(self.folder, "process.json")
            with open(path + ".tmp", "w", encoding="utf-8") as file:
                json.dump(dict(self.data), file)  # other threads may add fields meanwhile
            os.replace(path + ".tmp", path)

    def _find_accelerator(self) -> None:
        """Store information about the accelerator that the program uses, without selecting or
        initializing one.
        """
        data = self.data
        try:
            if _native.chosen():
                from ..accelerator import get_accelerator
                accelerator = get_accelerator()
                name = accelerator.current_device_name() if accelerator.name() != "cpu" else "cpu"
                data.update(accelerator=accelerator.name(), device_type=name.split(":")[0], device_count=accelerator.device_count())
            else:
                device = torch.accelerator.current_accelerator()  # what torch was built for
                module = getattr(torch, device.type, None) if device is not None else None
                if device is None or module is None or not getattr(module, "is_initialized", lambda: False)():
                    return
                data.update(accelerator=device.type, device_type=device.type, device_count=module.device_count())
            module = getattr(torch, data["device_type"], None)
            if data["device_type"] != "cpu" and hasattr(module, "get_device_name"):
                data["device_name"] = str(module.get_device_name())
        except Exception as error:  # an accelerator that fails is the program's concern
            data["device_name"] = f"unknown ({type(error).__name__})"

    def pause(self, reason: str) -> None:
        self.data["pauses"].append({"reason": reason, "start_ns": time.time_ns(), "end_ns": None})
        self.write()

    def resume(self) -> None:
        self.data["pauses"][-1]["end_ns"] = time.time_ns()

    def failed(self, detail: str) -> None:
        """Record an exception that ends the program."""
        self.data["exit"] = {"kind": "exception", "detail": detail[:500]}

    def finish(self, kind: str, detail: str) -> None:
        if self.data["exit"]["kind"] == "running":
            self.data["exit"] = {"kind": kind, "detail": detail}
        self.data["end_ns"] = time.time_ns()
        self.write()

    def forked(self) -> None:
        """Describe a forked child, in its own folder."""
        self._lock = threading.Lock()
        try:
            self._name_folder()
            self.windows = []
            self.data = {**self.data, "pid": os.getpid(), "parent": os.getppid(), "start_ns": time.time_ns(),
                         "windows": self.windows, "pauses": [], "dropped_events": 0, "dropped_windows": 0,
                         "overhead_ns": 0, "exit": {"kind": "fork", "detail": "forked children are not recorded"}}
            self.write()
        except OSError:
            pass  # the child may have closed its files or changed its user
