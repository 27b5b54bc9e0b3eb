"""Tests of the simulator's checker as users run it: no reports for correct programs, and clear and
machine-readable reports for defective ones.
"""
import json
import os
import signal
import subprocess
import sys
import unittest

from shell import BIN, libtorch_accelerator, shell
from sim_python_test import MODULE
from small_model import SMALL, SmallModelTest

LIBRARY = os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "lib", "libanyaccel_sim.so")

WRONG = """
import sys, torch
torch.ops.load_library(sys.argv[1])

# The module is inserted here:
def train_step():
    side = torch.Stream("sim:0")
    with side:
        hidden = torch.ones(8, 8).to("sim:0") * 2
    return hidden @ hidden

train_step()
try:
    torch.zeros(3, device="cuda")
except (AssertionError, RuntimeError):  # RuntimeError in a torch that was built for CUDA
    pass
"""


OUT_OF_MEMORY = """
import sys, torch
torch.ops.load_library(sys.argv[1])
# The module is inserted here:
held = torch.empty(10 << 20, device="sim:0")

def run_out():
    return torch.empty(10 << 20, device="sim:0")  # more than what remains of 64 MiB

try:
    run_out()
except torch.OutOfMemoryError as error:
    way = sys.argv[2]
    if way == "retry":
        del held
        run_out().fill_(1)
    elif way == "give up":
        sys.exit("out of memory")
    elif way == "raise":
        held.fill_(1)
        raise
    elif way == "raise from":
        raise RuntimeError("too large") from error
if sys.argv[2] == "fail later":
    raise ValueError("something else")
"""


REJECTED = """
import torch
from anyaccel import get_accelerator
accelerator = get_accelerator()
x = torch.ones(3, device="sim")
first, second = (torch.Event(device="sim", enable_timing=True) for _ in range(2))
first.record()
torch.ops.anyaccel_sim.sleep(0, 10 ** 9)
second.record()
try:
    first.elapsed_time(second)
except RuntimeError:
    pass
accelerator.synchronize()
try:
    with accelerator.capture_to_graph(accelerator.create_graph()):
        x.sum().item()
except RuntimeError:
    pass
torch.ones(3, dtype=torch.float64, device="sim")
"""


# Each version seeds generators, then draws random numbers on the device.
SEEDED = """
import random, sys

def seed():
    {seed}

def draw():
    return torch.nn.functional.dropout(torch.ones(64, device="{device}"))

{before}
import torch
{after}
draw()
draw()
"""

# The seeding call, whether the program calls it before it imports torch, and the generator that the
# note names.
HOST_SEEDS = (("random.seed(3)", True, "Python's random module"), ("random.seed(3)", False, "Python's random module"),
              ("import numpy; numpy.random.seed(3)", True, "NumPy"),
              ("torch.default_generator.manual_seed(3)", False, "torch's host generator"))
# Correct programs: seeds for every device, for one, or none.
OTHER_SEEDS = (("random.seed(3); torch.manual_seed(3)", "sim"), ("random.seed(3); torch.manual_seed(3)", "cuda"),
               ("torch.default_generator.manual_seed(3); torch.get_device_module().manual_seed(3)", "sim"),
               ("random.seed()", "sim"))


# The programs in stream_bugs.py, and the kind of problem that the checker must report.
STREAM_BUGS = {
    "checkpoint_thread": "unordered_streams",
    "checkpoint_on_default_stream": "unordered_threads",
    "batch_not_awaited": "unordered_threads",
    "freed_without_record_stream": "freed_in_use",
    "collective_not_awaited": "unordered_streams",
    "collective_read_late": "unordered_streams",
    "collective_awaited_on_other_stream": "unordered_streams",
    "leaked_output": "leak",
    "buffer_never_filled": "uninitialized",
    "ring_item": "not_synchronized",
    "ring_op": "not_synchronized",
    "ring_tolist": "not_synchronized",
    "ring_numpy": "not_synchronized",
    "batch_slot_overwritten": "not_synchronized",
    "autocast_by_name": "other_accelerator",
}


class SimCheck(SmallModelTest):
    def run_checked(self, line, check="abort", kind="problems", **variables):
        """Run a command line with the checker, and return the finished process and the problems or
        notes in the checker's JSON file.
        """
        file = os.path.join(self.folder, "problems.json")
        done = shell(line, DS_ACCELERATOR="sim", SIM_CHECK=check, SIM_CHECK_JSON=file, OMP_NUM_THREADS="1", **variables)
        with open(file, encoding="utf-8") as opened:
            return done, json.load(opened)[kind]

    # Fails if the checker reports a problem in training or generation, which are correct.
    def test_correct_programs(self):
        train = f"anyaccel train --data {self.data} --out {self.folder}/model {SMALL} --steps 10"
        generate = f"anyaccel generate --model {self.folder}/model --prompt line --max-new-tokens 20"
        for line in (train, train + " --dropout 0.1 --dtype bf16", train + " --graph", generate):
            with self.subTest(line):
                done, problems = self.run_checked(line)
                self.assertEqual((done.returncode, problems), (0, []), done.stderr)

    # Fails if the checker reports a problem in a program that orders its streams correctly.
    def test_correct_streams(self):
        if subprocess.run([sys.executable, "-c", "import torch"], check=False).returncode != 0:
            self.skipTest("this Python has no torch")
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "correct_streams.py")
        done, problems = self.run_checked(f"anyaccel sim run -- {sys.executable} {program}")
        self.assertEqual((done.returncode, problems), (0, []), done.stderr)

    # Fails if the checker does not detect one of these bugs, or reports a problem in the corrected
    # version.
    def test_stream_bugs(self):
        if subprocess.run([sys.executable, "-c", "import torch"], check=False).returncode != 0:
            self.skipTest("this Python has no torch")
        if not (3, 10) <= sys.version_info[:2] <= (3, 13):
            self.skipTest("the checker tracks threads of Python 3.10 to 3.13")
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stream_bugs.py")
        for name, kind in STREAM_BUGS.items():
            for version, expected in (("bug", {kind}), ("fixed", set())):
                with self.subTest(name, version=version):
                    done, problems = self.run_checked(f"anyaccel sim run -- {sys.executable} {program} {name} {version}", "report",
                                                      SIM_CHECK_EXTRA="leaks,uninitialized")
                    self.assertEqual((done.returncode, {problem["kind"] for problem in problems}), (0, expected), done.stderr)

    # Fails if the extra checks run without being requested, or an unknown one is accepted.
    def test_extra_checks_are_optional(self):
        if subprocess.run([sys.executable, "-c", "import torch"], check=False).returncode != 0:
            self.skipTest("this Python has no torch")
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stream_bugs.py")
        for name in ("leaked_output", "buffer_never_filled"):
            done, problems = self.run_checked(f"anyaccel sim run -- {sys.executable} {program} {name} bug")
            self.assertEqual((done.returncode, problems), (0, []), done.stderr)
        done = shell("sim_bugs kv_cache_shared fixed", DS_ACCELERATOR="sim", SIM_CHECK="report", SIM_CHECK_EXTRA="races")
        self.assertIn("SIM_CHECK_EXTRA", done.stderr)
        self.assertEqual(done.returncode, 1)

    # Fails if a report names a line other than the one that frees the tensor, does not say where
    # the program created the stream, or is repeated for the same line.
    def test_blamed_lines(self):
        if subprocess.run([sys.executable, "-c", "import torch"], check=False).returncode != 0:
            self.skipTest("this Python has no torch")
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stream_bugs.py")
        with open(program, encoding="utf-8") as file:
            lines = file.read().split("\n")
        free, stream = (next(number for number, line in enumerate(lines, 1) if line.endswith(mark))
                        for mark in ("# the free", "# the side stream"))
        done, problems = self.run_checked(f"anyaccel sim run -- {sys.executable} {program} freed_without_record_stream bug",
                                          "report")
        self.assertEqual(len(problems), 1, done.stderr)
        self.assertIn(f'stream_bugs.py", line {free} in freed_without_record_stream', problems[0]["line"])
        self.assertIn(f'stream_bugs.py", line {stream} in freed_without_record_stream', problems[0]["before"]["stream_created"])
        self.assertIn("without record_stream()", done.stderr)
        self.assertIn("and 2 more like it", done.stderr)
        self.assertNotIn("libpython", done.stderr)

    # Fails if a problem is not written to standard error and to the JSON file. Also fails if
    # SIM_CHECK=report changes the exit code.
    def test_defective_program_is_reported(self):
        done, problems = self.run_checked("sim_bugs prefetch_without_wait bug", "report")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([problem["kind"] for problem in problems], ["unordered_streams"])
        self.assertIn("aten::mm", problems[0]["op"])
        for part in ("(unordered_streams)", "float32 [32, 32]", "prefetch_without_wait", "wait_stream"):
            self.assertIn(part, done.stderr)

    # Fails if SIM_CHECK=abort lets the program continue, or if it aborts before the JSON file is
    # written.
    def test_abort_ends_the_program(self):
        done, problems = self.run_checked("exec sim_bugs kv_cache_shared bug")
        self.assertEqual(done.returncode, -signal.SIGABRT, done.stderr)
        self.assertEqual(len(problems), 1)

    # Fails if reported problems do not change the exit code, or suppressed problems do.
    def test_exit_code_and_suppressions(self):
        line = "anyaccel sim run --error-exitcode 9 {} -- sim_bugs prefetch_without_wait bug"
        self.assertEqual(shell(line.format("")).returncode, 9)
        known = os.path.join(self.folder, "known.txt")
        with open(known, "w", encoding="utf-8") as file:
            file.write("# known\nunordered_streams:aten::mm*\n")
        done = shell(line.format(f"--suppressions {known}"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 problem was suppressed", done.stderr)
        self.assertNotIn("(unordered_streams)", done.stderr)
        with open(known, "w", encoding="utf-8") as file:
            file.write("races:aten::mm\n")
        done = shell(line.format(f"--suppressions {known}"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("line 1 of", done.stderr)

    # Fails if a report does not name the Python line. Also fails if a device name that torch
    # rejects is not reported.
    def test_python_lines(self):
        if subprocess.run([sys.executable, "-c", "import torch"], check=False).returncode != 0:
            self.skipTest("this Python has no torch")
        program = os.path.join(self.folder, "wrong.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(WRONG.replace("# The module is inserted here:", MODULE))
        with open(program, encoding="utf-8") as file:
            line = file.read().split("\n").index("    return hidden @ hidden") + 1
        done, problems = self.run_checked(f"{sys.executable} {program} {LIBRARY}", "report")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({problem["kind"] for problem in problems} - {"freed_in_use"},
                         {"unordered_streams", "other_accelerator"})
        self.assertIn(f'wrong.py", line {line} in train_step', problems[0]["stack"][0])

    # Fails if a call that the simulator rejects is missing from the JSON file, or counts as a
    # problem.
    def test_rejected_calls(self):
        if subprocess.run([sys.executable, "-c", "import torch"], check=False).returncode != 0:
            self.skipTest("this Python has no torch")
        program = os.path.join(self.folder, "rejected.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(REJECTED)
        done, notes = self.run_checked(f"anyaccel sim run -- {sys.executable} {program}", "abort", "notes", SIM_DTYPES="float32")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual([(note["kind"], note["line"].split('"')[2]) for note in notes],
                         [("rejected", ", line 11 in <module>"), ("rejected", ", line 17 in <module>"), ("rejected", ", line 20 in <module>")])
        self.assertIn("before it was complete", notes[0]["what"])
        self.assertIn("must wait for its values", notes[1]["what"])
        self.assertIn("Double", notes[2]["what"])
        self.assertNotIn("sim check", done.stderr)

    def run_seeded(self, seed, before=False, device="sim", **variables):
        program = os.path.join(self.folder, "seeded.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(SEEDED.format(seed=seed, device=device, before="seed()" if before else "", after="" if before else "seed()"))
        stands_in = "" if device == "sim" else f"--stands-in-for {device}"
        done, notes = self.run_checked(f"anyaccel sim run {stands_in} -- {sys.executable} {program}", "abort", "notes", **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done, notes

    # Fails if a program that seeds only the host and then draws on the device is not noted once,
    # with the first line that draws and, for Python's generator, the line that seeds.
    def test_seeding_only_the_host(self):
        if subprocess.run([sys.executable, "-c", "import torch, numpy"], check=False).returncode != 0:
            self.skipTest("this Python has no torch, or no numpy")
        for seed, before, generator in HOST_SEEDS:
            with self.subTest(seed, before=before):
                done, notes = self.run_seeded(seed, before)
                self.assertEqual([(note["kind"], note["seen"]) for note in notes], [("unseeded_device", 1)], done.stderr)
                self.assertIn("line 8 in draw", notes[0]["line"])
                self.assertIn("the program seeded " + generator, notes[0]["what"])
                if "random" in generator:
                    self.assertIn("line 5 in seed", notes[0]["what"])
                    self.assertIn("line 5 in seed", "".join(notes[0]["before"]["stack"]))
                self.assertEqual(done.stderr.count("note: only the host's random numbers are seeded"), 1, done.stderr)
        with open(os.path.join(self.folder, "known.txt"), "w", encoding="utf-8") as file:
            file.write("unseeded_device:*\n")
        done, notes = self.run_seeded("random.seed(3)", SIM_CHECK_SUPPRESSIONS=f"{self.folder}/known.txt")
        self.assertEqual(notes, [])
        self.assertNotIn("(unseeded_device)", done.stderr)

    # Fails if a program that never seeds, seeds without a value, or also seeds the device is noted.
    def test_other_ways_to_seed(self):
        if subprocess.run([sys.executable, "-c", "import torch"], check=False).returncode != 0:
            self.skipTest("this Python has no torch")
        for seed, device in OTHER_SEEDS:
            if device == "cuda" and libtorch_accelerator() is not None:
                continue  # this torch has its own accelerator
            with self.subTest(seed, device=device):
                done, notes = self.run_seeded(seed, device=device)
                self.assertEqual(notes, [], done.stderr)

    def run_out_of_memory(self, way, check, kind):
        program = os.path.join(self.folder, "out_of_memory.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(OUT_OF_MEMORY.replace("# The module is inserted here:", MODULE))
        line = f"exec {sys.executable} {program} {LIBRARY} '{way}'"
        return self.run_checked(line, check, kind, SIM_MEMORY="64MiB")

    # Fails if a handled out-of-memory error aborts the program or counts as a problem.
    def test_handled_out_of_memory(self):
        if subprocess.run([sys.executable, "-c", "import torch"], check=False).returncode != 0:
            self.skipTest("this Python has no torch")
        for way, status in (("retry", 0), ("pass", 0), ("fail later", 1)):
            with self.subTest(way):
                done, notes = self.run_out_of_memory(way, "abort", "notes")
                self.assertEqual((done.returncode, [note["kind"] for note in notes]), (status, ["memory_limit"]), done.stderr)
                self.assertNotIn("(memory_limit)", done.stderr)
                self.assertIn("note: the program handled 1 error", done.stderr)

    # Fails if an out-of-memory error that terminates the program is not reported with the failing
    # line.
    def test_fatal_out_of_memory(self):
        if subprocess.run([sys.executable, "-c", "import torch"], check=False).returncode != 0:
            self.skipTest("this Python has no torch")
        for way in ("give up", "raise", "raise from"):
            with self.subTest(way):
                done, problems = self.run_out_of_memory(way, "report", "problems")
                self.assertEqual((done.returncode, [each["kind"] for each in problems]), (1, ["memory_limit"]), done.stderr)
                self.assertIn("in run_out", problems[0]["stack"][0])
        done, problems = self.run_out_of_memory("raise", "abort", "problems")
        self.assertEqual((done.returncode, len(problems)), (-signal.SIGABRT, 1), done.stderr)

    # Fails if a program starts with an invalid value of SIM_CHECK.
    def test_invalid_value(self):
        done = shell("sim_bugs kv_cache_shared fixed", DS_ACCELERATOR="sim", SIM_CHECK="yes")
        self.assertIn("SIM_CHECK", done.stderr)
        self.assertEqual(done.returncode, 1)


if __name__ == "__main__":
    if not os.path.exists(os.path.join(BIN, "sim_bugs")):
        print("SKIP: this build has no simulated accelerator (-DANYACCEL_SIM=OFF)")
        sys.exit(77)
    unittest.main()
