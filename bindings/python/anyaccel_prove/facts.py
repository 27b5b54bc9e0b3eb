"""Facts about the machine, collected without AnyAccel."""

import datetime
import importlib.util
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

# Prints what torch reports about its version and its accelerator.
TORCH = """
import json, torch
found = dict(torch=torch.__version__, cuda=torch.version.cuda or "", devices=[])
kind = torch.accelerator.current_accelerator() if hasattr(torch, "accelerator") else None
if kind is not None and torch.accelerator.is_available():
    module = torch.get_device_module(kind)
    count = module.device_count()
    found["accelerator"] = kind.type
    if hasattr(module, "get_device_name"):
        found["devices"] = [module.get_device_name(i) for i in range(count)]
    if hasattr(module, "get_device_capability"):
        found["capability"] = str(module.get_device_capability(0))
    if hasattr(module, "get_device_properties"):
        found["processors"] = getattr(module.get_device_properties(0), "multi_processor_count", 0)
print(json.dumps(found))
"""


def output_of(*command):
    """Return the output of a command, or an empty string if it fails or is missing. The command runs
    in the root folder, because Python also imports modules from the current folder.
    """
    try:
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, errors="replace", timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def first_line(*command):
    return output_of(*command).partition("\n")[0]


def version_of(command):
    """Return the version in the output of `command --version`, or an empty string."""
    return "".join(re.findall(r"(?:release|version) V?([\d.]+)", output_of(command, "--version"), re.I)[:1])


def torch_facts(python):
    try:
        return json.loads(first_line(python, "-c", TORCH))
    except ValueError:
        return {}


def processor():
    try:
        found = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found.group(1) if found else platform.machine()


def jobs():
    """Return the number of parallel compile jobs: at most one per core and per 1.5 GB of free memory."""
    cores = len(os.sched_getaffinity(0))
    try:
        found = re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    return max(1, min(cores, int(found.group(1)) // (1536 * 1024))) if found else cores


def is_writable(folder):
    """Return whether files can be created in a folder. Permission bits alone are not reliable."""
    try:
        with tempfile.TemporaryDirectory(dir=folder):
            return True
    except OSError:
        return False


def commit_of(root):
    """Return the short commit, with "-dirty" if files other than reports differ, or "unknown"."""
    if root is None:
        return "unknown"
    commit = first_line("git", "-C", str(root), "rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unknown"
    changed = first_line("git", "-C", str(root), "status", "--porcelain", "--", ".", ":!docs/hardware")
    return commit + ("-dirty" if changed else "")


def device_name(backend, devices, gpu):
    """Return a name for the title and the report's folder."""
    if backend == "cpu":
        return processor()
    if backend == "sim":
        return "simulated accelerator"
    return devices[0] if devices else gpu[0] if gpu else backend


def device_facts(python, backend):
    """Return a dictionary of strings and numbers, in the order of the report."""
    torch = torch_facts(python)
    devices = [str(each) for each in torch.get("devices", [])] if backend not in ("cpu", "sim") else []
    line = first_line("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    gpu = [each.strip() for each in line.split(",")] if devices and line.count(",") >= 2 else []
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "device": device_name(backend, devices, gpu),
        "devices": len(devices) or 1,
        "driver": gpu[1] if gpu else "",
        "memory": gpu[2] if gpu else "",
        "capability": torch.get("capability", "") if devices else "",
        "multiprocessors": torch.get("processors", "") if devices else "",
        "torch": torch.get("torch", "not importable"),
        "CUDA of torch": torch.get("cuda", ""),
        "nvcc": version_of("nvcc"),
        "compute-sanitizer": version_of("compute-sanitizer"),
        "Python": first_line(python, "-c", "import platform; print(platform.python_version())"),
        "compiler": first_line("c++", "--version"),
        "CMake": version_of("cmake"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
    }


def python_with_torch(root):
    """Return the interpreter that runs this program if it has torch, otherwise that of the project's
    .venv if it exists.
    """
    if importlib.util.find_spec("torch") or root is None or not (root / ".venv/bin/python3").exists():
        return sys.executable
    return str(root / ".venv/bin/python3")
