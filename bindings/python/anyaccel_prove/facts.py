"""Facts about the machine, collected without AnyAccel."""

import datetime
import functools
import hashlib
import importlib.util
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

from . import readers

# Prints what torch reports about its version and its accelerator. Only the last line counts. The
# earlier ones are for queries that crash.
TORCH = """
import json, torch
found = dict(torch=torch.__version__, cuda=torch.version.cuda or "", devices=[])
print(json.dumps(found), flush=True)

def query(name, call):
    try:
        found[name] = call()
        json.dumps(found)
    except Exception:
        found.pop(name, None)

def first_type():
    kind = torch.accelerator.current_accelerator()
    return kind.type if kind is not None and torch.accelerator.is_available() else ""

query("accelerator", first_type)
if found.get("accelerator"):
    print(json.dumps(found), flush=True)
    module = torch.get_device_module(found["accelerator"])
    query("devices", lambda: [str(module.get_device_name(i)) for i in range(module.device_count())])
    query("capability", lambda: str(module.get_device_capability(0)))
    query("processors", lambda: int(module.get_device_properties(0).multi_processor_count))
print(json.dumps(found))
"""


def printed_by(*command, must_pass=False):
    """Return what a command prints, or an empty string if it is missing or, with `must_pass`, fails.
    The command runs in the root folder, because Python also imports modules from the current folder.
    """
    try:
        done = subprocess.run(command, cwd="/", capture_output=True, text=True, errors="replace", timeout=120)
    except OSError:
        return ""
    except subprocess.TimeoutExpired as error:
        found = error.stdout or ""  # bytes, although `text` is set
        return "" if must_pass else found if isinstance(found, str) else found.decode(errors="replace")
    return done.stdout if done.returncode == 0 or not must_pass else ""


def output_of(*command):
    """Return what a command prints, or an empty string if it fails or is missing."""
    return printed_by(*command, must_pass=True).strip()


def first_line(*command):
    return output_of(*command).partition("\n")[0]


def version_of(command):
    """Return the version in the output of `command --version`, or an empty string."""
    return "".join(re.findall(r"(?:release|version) V?([\d.]+)", output_of(command, "--version"), re.I)[:1])


@functools.lru_cache
def torch_facts(python):
    """Return what TORCH prints, or nothing if the interpreter cannot import torch."""
    found = [line for line in readers.lines_of(printed_by(python, "-c", TORCH)) if "torch" in line]
    return found[-1] if found else {}


def package_version(python, folder):
    """Return the version of the package anyaccel in a folder, or an empty string."""
    command = f"import sys; sys.path.insert(0, {str(folder)!r}); import anyaccel; print(anyaccel.__version__)"
    return readers.last_line(output_of(python, "-c", command))


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
    """Return the short commit, or "unknown". If files other than reports differ, "-dirty-" and a hash
    of the differences follow.
    """
    if root is None:
        return "unknown"
    commit = first_line("git", "-C", str(root), "rev-parse", "--short=12", "HEAD")
    if not commit:
        return "unknown"
    here = ("--", ".", ":!docs/hardware")
    changed = output_of("git", "-C", str(root), "status", "--porcelain", "--untracked-files=all", *here)
    if not changed:
        return commit
    digest = hashlib.sha256(changed.encode(errors="replace"))
    digest.update(output_of("git", "-C", str(root), "diff", "--binary", "HEAD", *here).encode(errors="replace"))
    for name in output_of("git", "-C", str(root), "ls-files", "-z", "--others", "--exclude-standard", *here).split("\0"):
        try:
            digest.update(pathlib.Path(root, name).read_bytes() if name else b"")
        except OSError:
            continue  # the name and the state are in `changed`
    return f"{commit}-dirty-{digest.hexdigest()[:8]}"


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
