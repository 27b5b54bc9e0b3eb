"""Runs the commands of a part with a time limit."""

import os
import shlex
import signal
import subprocess
import threading
import time

from .readers import ENDED

PART_MINUTES = 10
LOG_CHARACTERS = 6000  # maximum length of each part's output in the report
SKIPPED = 77  # exit status of a program that does not apply; its last line gives the reason


class Part:
    """One part of the report: commands that run in order, without a shell.

    `read(output)` converts the last command's standard output to data for the report. Its keys
    `summary`, `status` and `failures` (name, message, command) are moved out of the data.
    """
    def __init__(self, name, commands=(), *, minutes=PART_MINUTES, needs=(), group=None, read=None, skip=None, environment=None):
        self.name, self.commands, self.minutes, self.needs, self.group = name, commands, minutes, needs, group
        self.read = read or (lambda output: {})
        self.skip = skip  # why the part does not apply on this machine
        self.environment = environment or {}


def command_text(command, environment):
    """Return a shell command that also sets the variables that differ from this process's environment."""
    changed = (f"{name}={shlex.quote(value)}" for name, value in environment.items() if os.environ.get(name) != value)
    return " ".join([*changed, shlex.join(command)])


def last_line(text):
    return (text.strip().splitlines() or [""])[-1]


class Processes:
    """The running process groups. stop() kills them, because they would outlive this process."""
    def __init__(self):
        self.running, self.stopped, self.lock = set(), False, threading.RLock()

    def start(self, command, **options):
        """Start a process, or return None after stop()."""
        with self.lock:
            if self.stopped:
                return None
            process = subprocess.Popen(command, start_new_session=True, **options)
            self.running.add(process)
            return process

    def kill(self, process):
        with self.lock:
            if process in self.running:
                os.killpg(process.pid, signal.SIGKILL)

    def finished(self, process):
        with self.lock:
            self.running.discard(process)

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.running:
                os.killpg(process.pid, signal.SIGKILL)


processes = Processes()


def run_command(command, folder, environment, seconds):
    """Return (exit status or None if time ran out, standard output, standard error)."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace"}
    try:
        process = processes.start(command, cwd=folder, env=environment, **pipes)
    except OSError as error:
        return 127, "", f"cannot start {command[0]}: {error.strerror}\n"
    if process is None:
        return None, "", ""
    try:
        output, errors = process.communicate(timeout=max(seconds, 1))
        return process.returncode, output, errors
    except subprocess.TimeoutExpired:
        processes.kill(process)
        return (None, *process.communicate())
    finally:
        processes.finished(process)


def run_part(part, folder, environment, seconds):
    """Run a part and return its result."""
    begin, log, output = time.monotonic(), "", ""
    environment = {**environment, **part.environment}
    status, command = "passed", part.commands[0]
    for command in part.commands:
        code, output, errors = run_command(command, folder, environment, seconds - (time.monotonic() - begin))
        log += output + errors
        if code:
            log += f"\nexit status {code}" + (
                f" ({signal.Signals(-code).name})" if code < 0 else "") + "\n" if code != SKIPPED else ""
        if code != 0:
            status = "interrupted" if code is None else "skipped" if code == SKIPPED else "failed"
            break
    result = {
        "status": status, "seconds": round(time.monotonic() - begin, 1), "log": log[-LOG_CHARACTERS:],
        "command": command_text(command, environment)
    }
    try:
        data = part.read(output)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        data = {}
        if status == "passed":
            result["status"], result["log"] = "failed", log[-LOG_CHARACTERS:] + f"\nunreadable output: {error!r}"
    result["summary"] = data.pop("summary", "") or (last_line(output or log) if status == "skipped" else "")
    result["failures"] = data.pop("failures", [])
    if status == "interrupted":
        for failure in result["failures"]:
            failure["message"] = failure["message"].replace(ENDED, "time ran out during this check")
    if status == "passed" and result["failures"]:
        result["status"] = "failed"
    result["data"] = data
    return result
