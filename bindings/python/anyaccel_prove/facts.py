"""Facts about the machine, collected without AnyAccel."""

import datetime
import importlib.util
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

# The name of each device type of torch's, where one is available.
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


def first_line(*command, environment=None):
    """Return the first line that a command prints, or an empty string."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 and done.stdout.strip() else ""


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
    """Return the number of compilers that fit in memory: one needs about 1.5 GB."""
    cores = len(os.sched_getaffinity(0))
    try:
        found = re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    except OSError:
        found = None
    return max(1, min(cores, int(found.group(1)) // (1536 * 1024))) if found else cores


def is_writable(folder):
    """Return whether files can be created in a folder. Permissions alone do not tell."""
    try:
        with tempfile.TemporaryDirectory(dir=folder):
            return True
    except OSError:
        return False


def commit_of(root):
    """Return the short commit, with "-dirty" if files differ other than reports, or "unknown"."""
    if root is None:
        return "unknown"
    commit = first_line("git", "-C", str(root), "rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unknown"
    changed = first_line("git", "-C", str(root), "status", "--porcelain", "--", ".", ":!docs/hardware")
    return commit + ("-dirty" if changed else "")


def device_facts(python, backend):
    """Return a dictionary of texts and numbers, in the order in which the report shows them."""
    torch = torch_facts(python)
    gpu = first_line("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader")
    nvcc = subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout if shutil.which("nvcc") else ""
    devices = [str(each) for each in torch.get("devices", [])]
    own = backend not in ("cpu", "sim")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "device": devices[0]
        if own and devices else gpu.split(",")[0] if own and gpu else processor() if backend == "cpu" else backend,
        "devices": len(devices) if own else 1, "driver": gpu.split(",")[1].strip() if gpu.count(",") >= 2 else "",
        "memory": gpu.split(",")[2].strip() if gpu.count(",") >= 2 else "", "capability": torch.get("capability", ""),
        "processors": torch.get("processors", ""), "torch": torch.get("torch", "not importable"),
        "torch's CUDA": torch.get("cuda", ""), "nvcc": "".join(re.findall(r"release ([\d.]+)", nvcc)[:1]),
        "compute-sanitizer": first_line("compute-sanitizer", "--version") if shutil.which("compute-sanitizer") else "",
        "Python": first_line(python, "-c",
                             "import platform; print(platform.python_version())"), "compiler": first_line("c++", "--version"),
        "CMake": first_line("cmake",
                            "--version").replace("cmake version ",
                                                 ""), "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": processor(), "cores": len(os.sched_getaffinity(0))
    }


def python_with_torch(root):
    """Return the interpreter that runs this program if it has torch, otherwise that of the project's
    .venv if it exists.
    """
    if importlib.util.find_spec("torch") or root is None or not (root / ".venv/bin/python3").exists():
        return sys.executable
    return str(root / ".venv/bin/python3")
