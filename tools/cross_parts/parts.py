"""The parts that tools/cross builds and runs."""
import json
import os
import re
import shutil
import subprocess
import time

from . import counts, emulator, processors, sysroot

ROOT = sysroot.ROOT
# Divides the numbers of random cases in the kernels' tests, because emulation is slow.
DIVISOR = "20"
# These tests run device code with one thread per GPU thread, or do not depend on the instruction
# set. They run on one processor only.
ANY_PROCESSOR = "AttentionBlocks.*:EvoformerBlocks.*:InferenceCuda.*:InferenceTeam.*:MultiTensor.*:RandomLtd.*:RowsBlocks.*:SparseLayout.*"


class Failed(Exception):
    """A part could not be built, or its tests wrote no report."""


class Setup:
    """What a part needs to know: the folder that was set up, the number of jobs, the processors on
    which kernels run, and why emulated programs cannot start others (or "")."""

    def __init__(self, folder, jobs, chosen, nesting_problem=""):
        self.folder, self.jobs, self.chosen, self.nesting_problem = folder, jobs, chosen, nesting_problem

    def build_folder(self, name):
        return ROOT / "build" / name


def execute(arguments, **options):
    """Run a command that must succeed."""
    print("== " + " ".join(map(str, arguments)), flush=True)
    if subprocess.run(list(map(str, arguments)), cwd=ROOT, **options).returncode:
        raise Failed(f"`{' '.join(map(str, arguments[:4]))}` failed")


def build(setup, preset, targets, torch=None, binary=None):
    """Configure and build targets. `torch` is the folder of LibTorch."""
    folder = setup.build_folder(binary or preset)
    options = [f"-DTorch_DIR={torch}"] if torch else []
    execute(["cmake", "--preset", preset, "-B", folder, f"-DANYACCEL_CROSS_DIR={setup.folder}", "--log-level=NOTICE", *options])
    execute(["cmake", "--build", folder, "-j", setup.jobs, "--target", *targets])
    return folder


def version_only(folder):
    """Return a folder that takes LibTorch's place for targets that do not use it. It contains only the
    header with the version, which the configure step reads."""
    header = folder / "no_torch/include/torch/headeronly/version.h"
    if not header.exists():
        (folder / "no_torch/include/ATen").mkdir(parents=True, exist_ok=True)
        header.parent.mkdir(parents=True, exist_ok=True)
        names = ("MAJOR", "MINOR", "PATCH")
        header.write_text("".join(f"#define TORCH_VERSION_{name} {number}\n" for name, number in zip(names, sysroot.torch_version().split("."))))
    return folder / "no_torch"


def run_googletest(setup, program, processor, pattern="*"):
    """Run a program's tests that match GoogleTest's pattern on a processor, one process per job, and
    return the counts."""
    reports = [program.parent / f"{program.name}.{processor.name}.{shard}.xml" for shard in range(setup.jobs)]
    running = []
    for shard, report in enumerate(reports):
        report.unlink(missing_ok=True)
        environment = {"ANYACCEL_TEST_DIVISOR": DIVISOR, **os.environ, "GTEST_TOTAL_SHARDS": str(setup.jobs), "GTEST_SHARD_INDEX": str(shard)}
        running.append(subprocess.Popen([setup.folder / "bin" / processor.name, program, f"--gtest_output=xml:{report}", f"--gtest_filter={pattern}",
                                         "--gtest_brief=1"],
                                        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"))
    total = counts.Counts()
    for process, report in zip(running, reports):
        output, _ = process.communicate()
        if report.exists():
            total.add(counts.of_googletest(report.read_text()))
        else:
            total.add(counts.Counts(failed=1))
        if process.returncode:
            print(output[-6000:], flush=True)
    return total


def read_exclusions(text):
    """Return (pattern, reason) for each line of tests/cross/excluded.tsv."""
    lines = [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
    return [(re.compile(pattern), reason) for pattern, reason in lines]


def excluded_tests(names, exclusions):
    """Return {name: reason} for the tests that cannot run under emulation."""
    return {name: reason for name in names for pattern, reason in exclusions if pattern.fullmatch(name)}


def run_ctest(setup, build_folder, label):
    """Run the tests of a build folder that have a label that matches, and return the counts."""
    if setup.nesting_problem:
        return counts.Counts(skipped=1, reasons=[f"emulated programs cannot start other programs: {setup.nesting_problem}"])
    processor = processors.find(processors.DEFAULT)
    listing = emulator.start(["ctest", "--test-dir", build_folder, "-L", label, "--show-only=json-v1"], setup.folder, processor,
                             stdout=subprocess.PIPE, text=True)
    names = [test["name"] for test in json.loads(listing.communicate()[0])["tests"]]
    left_out = excluded_tests(names, read_exclusions((ROOT / "tests/cross/excluded.tsv").read_text()))
    results = build_folder / "cross-results.txt"
    results.unlink(missing_ok=True)
    command = ["tools/run_tests", build_folder, "--jobs", setup.jobs, "--results", results, "--label", label]
    if left_out:
        command += ["--exclude", "^(" + "|".join(map(re.escape, left_out)) + ")$"]
    emulator.start(command, setup.folder, processor, cwd=ROOT).wait()
    if not results.exists():
        raise Failed("tools/run_tests wrote no results")
    seen = counts.of_run_tests(results.read_text())
    seen.add(counts.Counts(skipped=len(left_out), reasons=left_out.values()))
    return seen


def kernels(setup):
    folder = build(setup, "aarch64-kernels", ["unit_kernels"])
    total = counts.Counts()
    for place, processor in enumerate(setup.chosen):
        begin = time.monotonic()
        seen = run_googletest(setup, folder / "bin/unit_kernels", processor, f"-{ANY_PROCESSOR}" if place else "*")
        print(f"kernels on {processor.name:10} {seen} ({time.monotonic() - begin:.0f} s)", flush=True)
        total.add(seen)
    return total


def base(setup):
    targets = ("base", "text", "shm", "async_io")
    folder = build(setup, "aarch64", [f"unit_{name}" for name in targets], version_only(setup.folder), "aarch64-base")
    return run_ctest(setup, folder, f"^unit_({'|'.join(targets)})$")


def with_torch(setup, *targets):
    return build(setup, "aarch64", targets, setup.folder / "torch/torch")


def core(setup):
    targets = ("core", "graph", "sim", "sim_check", "comm")
    folder = with_torch(setup, *(f"unit_{name}" for name in targets))
    return run_ctest(setup, folder, f"^unit_({'|'.join(targets)})$")


def conformance(setup):
    folder = with_torch(setup, "anyaccel_program", "anyaccel_cli_conformance", "anyaccel_prebuilt_ops")
    if setup.nesting_problem:
        return counts.Counts(skipped=1, reasons=[setup.nesting_problem])
    total = counts.Counts()
    for backend in ("cpu", "sim"):
        process = emulator.start(["tools/conformance", backend, "--build", folder, "--timeout", "3600"], setup.folder,
                                 processors.find(processors.DEFAULT), cwd=ROOT, stdout=subprocess.PIPE, text=True)
        output, _ = process.communicate()
        print(output, end="", flush=True)
        total.add(counts.of_conformance(output))
    return total


def ops(setup):
    targets = ("optim", "transformer_api", "sparse_attn_api", "quantizer_api", "async_io_api")
    folder = with_torch(setup, "anyaccel_prebuilt_ops", *(f"unit_{name}" for name in targets))
    return run_ctest(setup, folder, f"^unit_({'|'.join(targets)})$")


def llm(setup):
    folder = with_torch(setup, "unit_llm", "anyaccel_prebuilt_decoder")
    return run_ctest(setup, folder, "^unit_llm$")


def generate(setup):
    folder = with_torch(setup, "anyaccel_program", "anyaccel_cli", "anyaccel_prebuilt_decoder")
    python = ROOT / ".venv/bin/python3"
    if setup.nesting_problem:
        return counts.Counts(skipped=1, reasons=[setup.nesting_problem])
    report = folder / "generate.xml"
    report.unlink(missing_ok=True)
    environment = {**os.environ, "ANYACCEL_PROGRAM": str(folder / "bin/anyaccel"), "ANYACCEL_REPORT": str(report)}
    process = emulator.start([python if python.exists() else shutil.which("python3"), "-B", "tests/cross/generate_test.py"], setup.folder,
                             processors.find(processors.DEFAULT), cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output, _ = process.communicate()
    print(output, end="", flush=True)
    return counts.of_unittest(output, process.returncode)


# Name: function, whether it needs LibTorch, Debian packages, and what it covers.
PARTS = {
    "kernels": (kernels, False, sysroot.GTEST_PACKAGES, "unit tests of the kernels, on every processor"),
    "base": (base, False, sysroot.GTEST_PACKAGES + sysroot.LIBRARY_PACKAGES,
             "unit tests of base, topology, launcher, build service, tokenizers, shared memory and asynchronous I/O"),
    "core": (core, True, sysroot.GTEST_PACKAGES + sysroot.LIBRARY_PACKAGES, "unit tests of the core, CPU graphs, the simulator and process groups"),
    "conformance": (conformance, True, sysroot.GTEST_PACKAGES + sysroot.LIBRARY_PACKAGES, "the conformance kit on cpu and sim"),
    "ops": (ops, True, sysroot.GTEST_PACKAGES + sysroot.LIBRARY_PACKAGES, "the prebuilt ops, and unit tests of their C++ classes"),
    "llm": (llm, True, sysroot.GTEST_PACKAGES + sysroot.LIBRARY_PACKAGES, "unit tests of language models"),
    "generate": (generate, True, sysroot.GTEST_PACKAGES + sysroot.LIBRARY_PACKAGES,
                 "generation with a small checkpoint in fp32, bf16, int8 and int4, compared with references from x86"),
}
