"""Runs a command with a time limit. When time runs out, the processes that the command started are
also killed.
"""
import os
import signal
import subprocess


def run(command, timeout, **options):
    """Run a command like subprocess.run(). After `timeout` seconds, kill its process group and raise
    subprocess.TimeoutExpired with the output so far."""
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)
