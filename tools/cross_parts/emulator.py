"""Runs programs for ARM servers with QEMU's user-mode emulation.

The emulated programs start other emulated programs. For that, the kernel must know the emulator.
`namespace()` registers it in a user namespace of its own, which needs Linux 6.7, so this machine's
settings do not change.
"""
import ctypes
import os
import pathlib
import shlex
import shutil
import subprocess

from . import processors

QEMU = "qemu-aarch64-static"
SOURCES = pathlib.Path(__file__).resolve().parents[2] / "tests/cross"
CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
REGISTRY = "/proc/sys/fs/binfmt_misc"
# The first 20 bytes of a 64-bit ARM program or shared library, and the bytes to compare.
MAGIC = r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
MASK = r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff"


def write_program(path, text):
    """Write a script atomically, because another build may be running the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f"{path.name}.{os.getpid()}")
    made.write_text(text)
    made.chmod(0o755)
    os.replace(made, path)


def script(processor, folder):
    """Return a shell script that runs a program on `processor`."""
    return f'#!/bin/sh\nexec {QEMU} -cpu {shlex.quote(processor.cpu)} -L {shlex.quote(str(folder / "roots" / processor.name))} "$@"\n'


def compile_interpreter(processor, folder):
    """Compile the program that the kernel starts in place of an ARM program."""
    values = {"QEMU": shutil.which(QEMU), "CPU": processor.cpu, "SYSROOT": folder / "roots" / processor.name}
    out = folder / "bin" / f"{processor.name}.interpreter"
    made = out.with_name(f"{out.name}.{os.getpid()}")
    subprocess.run(["cc", "-O1", "-static", "-Wall", "-Wextra", "-Werror", *(f'-D{name}="{value}"' for name, value in values.items()),
                    SOURCES / "interpreter.c", "-o", made], check=True)
    os.replace(made, out)


def registration(interpreter):
    """Return the line that registers an interpreter with binfmt_misc. With the flag P, it receives
    the program's path and its argv[0]."""
    return f":anyaccel-aarch64:M::{MAGIC}:{MASK}:{interpreter}:P"


def prepare(folder, count):
    """Write each processor's sysroot and programs.

    roots/NAME has links to `sysroot`, and the files that describe the processor. bin/NAME runs a
    program. bin/NAME.interpreter is for the kernel. bin/emulate runs a program on the default
    processor, for CMake.

    Return {name: problem} for the processors that QEMU does not emulate as requested.
    """
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    report = folder / "bin/processor"
    subprocess.run(["aarch64-linux-gnu-g++", "-O1", "-static", SOURCES / "processor.cpp", "-o", report], check=True)
    problems = {}
    for processor in processors.PROCESSORS:
        root = folder / "roots" / processor.name
        root.mkdir(parents=True, exist_ok=True)
        for name in ("lib", "usr"):
            if not (root / name).is_symlink():
                (root / name).symlink_to(folder / "sysroot" / name)
        write_program(folder / "bin" / processor.name, script(processor, folder))
        done = subprocess.run([folder / "bin" / processor.name, report], capture_output=True, text=True)
        if done.returncode:
            problems[processor.name] = done.stderr.strip()
            continue
        seen = processors.parse_report(done.stdout)
        problem = processors.problem(processor, seen)
        if problem:
            problems[processor.name] = problem
        compile_interpreter(processor, folder)
        (root / "proc").mkdir(exist_ok=True)
        (root / "proc/cpuinfo").write_text(processors.cpuinfo(processor, processors.flags(seen["hwcap"], seen["hwcap2"]), count))
        for number in range(count):
            cpu = root / f"sys/devices/system/cpu/cpu{number}"
            (cpu / "regs/identification").mkdir(parents=True, exist_ok=True)
            (cpu / "regs/identification/midr_el1").write_text(f"{processors.midr(processor):#018x}\n")
            if not (cpu / "cache").is_symlink():
                (cpu / "cache").symlink_to(folder / f"sysroot/sys/devices/system/cpu/cpu{number}/cache")
    write_program(folder / "bin/emulate", f'#!/bin/sh\nexec {shlex.quote(str(folder / "bin"))}/{processors.DEFAULT} "$@"\n')
    return problems


def _call(name, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def _enter(interpreter):
    """Enter a user namespace in which the kernel runs ARM programs with `interpreter`."""
    user, group = os.getuid(), os.getgid()
    from_child, to_parent = os.pipe()
    from_parent, to_child = os.pipe()
    parent = os.getpid()
    helper = os.fork()
    if helper == 0:  # writes the maps from outside, so that root can map every user
        os.close(to_parent)
        os.close(to_child)
        status = 1
        try:
            if os.read(from_child, 1):
                whole = "0 0 4294967295" if user == 0 else ""
                if user:
                    pathlib.Path(f"/proc/{parent}/setgroups").write_text("deny")
                pathlib.Path(f"/proc/{parent}/uid_map").write_text(whole or f"0 {user} 1")
                pathlib.Path(f"/proc/{parent}/gid_map").write_text(whole or f"0 {group} 1")
                status = 0
        finally:
            os._exit(status)
    os.close(from_child)
    os.close(from_parent)
    try:
        _call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
        os.write(to_parent, b"x")
    finally:
        os.close(to_parent)
        os.close(to_child)
        _, status = os.waitpid(helper, 0)
    if status:
        raise OSError("cannot map the users of a new namespace")
    _call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    _call("mount", b"binfmt_misc", REGISTRY.encode(), b"binfmt_misc", 0, None)
    pathlib.Path(REGISTRY, "register").write_text(registration(interpreter))


def start(arguments, folder, processor, **options):
    """Start a command on the host, which sees ARM programs as programs of the host. The options are
    those of subprocess.Popen. Raises subprocess.SubprocessError if the system does not allow it."""
    interpreter = folder / "bin" / f"{processor.name}.interpreter"
    return subprocess.Popen(list(map(str, arguments)), preexec_fn=lambda: _enter(interpreter), **options)


def nesting_problem(folder):
    """Return why emulated programs cannot start emulated programs on this machine, or an empty
    string."""
    processor = processors.find(processors.DEFAULT)
    try:
        return "" if start([folder / "bin/processor"], folder, processor, stdout=subprocess.DEVNULL).wait() == 0 else "the interpreter fails"
    except (OSError, subprocess.SubprocessError):
        return "this requires user namespaces and binfmt_misc in them (Linux 6.7 or newer)"
