"""Tests of `anyaccel train` with `anyaccel launch`: several ranks give the same result as one rank.
"""
import json
import os
import pathlib
import signal
import subprocess
import unittest

from shell import BIN, shell
from small_model import SMALL, SmallModelTest

# Ranks sum in a different order than one rank, and training amplifies the difference. After 20
# steps with this model, the difference is below this bound.
BOUND = 1e-5


class TrainRanks(SmallModelTest):
    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, out, options, ranks):
        launch = f"anyaccel launch -q --oversubscribe --num_accelerators {ranks} " if ranks else ""
        return f"{launch}anyaccel train --data {self.data} --out {self.path(out)} {SMALL} --json {options}"

    def train(self, out, options="", ranks=None, **variables):
        # oneCCL, if installed, would print a line into the output, which is parsed.
        variables = {"DS_ACCELERATOR": "cpu", "ANYACCEL_CCL": "off", **variables}
        return shell(self.command(out, options, ranks), OMP_NUM_THREADS="1", **variables)

    def result(self, done):
        """Return the last line of the output, which is the summary. Each line before it reports a
        step.
        """
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["loss"] for line in lines[:-1]], lines[-1]["losses"])
        self.assertTrue(lines[-1]["same_weights"], done.stderr)
        return lines[-1]

    def assert_near(self, got, want):
        self.assertEqual(len(got), len(want))
        for mine, other in zip(got, want):
            self.assertLess(abs(mine - other), BOUND * other, f"{got}\nwanted\n{want}")

    # Fails if the losses of several ranks differ from those of one rank, for example because each
    # rank clips by its own norm.
    def test_matches_one_rank(self):
        for options in ("--batch-size 4", "--batch-size 5 --dropout 0.1 --clip 0.1", "--batch-size 4 --dtype bf16", "--batch-size 3 --dtype fp16",
                        "--batch-size 4 --tie-embeddings --bucket-cap-mb 0.01"):
            one = self.result(self.train("one", f"--steps 20 --seed 3 {options}"))
            for ranks in (2, 3):
                with self.subTest(options, ranks=ranks):
                    many = self.result(self.train("many", f"--steps 20 --seed 3 {options}", ranks))
                    self.assertEqual((many["world_size"], many["steps"], many["out"]), (ranks, 20, self.path("many")))
                    if "16" in options:  # each rank rounds the gradients of its own part of the batch
                        self.assertAlmostEqual(many["final_loss"], one["final_loss"], delta=0.02 * one["final_loss"])
                        continue
                    self.assert_near(many["losses"], one["losses"])
                    self.assert_near([many["held_out_loss"]], [one["held_out_loss"]])
                    self.assertEqual(many["unigram_entropy"], one["unigram_entropy"])

    # Fails if two ranks on the simulator give different losses than one rank, or if the checker
    # reports a problem.
    def test_on_the_simulator(self):
        if "sim" not in shell("anyaccel report --json", DS_ACCELERATOR="cpu").stdout:
            self.skipTest("this build has no simulator")
        variables = {"DS_ACCELERATOR": "sim", "SIM_DEVICES": "2", "SIM_CHECK": "abort"}
        one = self.result(self.train("one", "--steps 6 --batch-size 3", **variables))
        many = self.result(self.train("many", "--steps 6 --batch-size 3", 2, **variables))
        self.assertEqual((many["accelerator"], many["world_size"]), ("sim", 2))
        self.assert_near(many["losses"], one["losses"])

    # Fails if resuming with a different number of ranks changes the losses.
    def test_resume_with_different_rank_count(self):
        options = "--batch-size 4 --dropout 0.1"
        whole = self.result(self.train("whole", f"--steps 20 {options}"))
        losses = self.result(self.train("parts", f"--steps 6 {options}", 2))["losses"]
        losses += self.result(self.train("parts", "--resume --steps 12", 3))["losses"]
        losses += self.result(self.train("parts", "--resume --steps 15"))["losses"]
        losses += self.result(self.train("parts", "--resume --steps 20", 2))["losses"]
        # The learning-rate schedule depends on the number of steps, so the run with one rank must
        # be resumed at the same steps.
        alone = self.result(self.train("alone", f"--steps 6 {options}"))["losses"]
        for steps in (12, 15, 20):
            alone += self.result(self.train("alone", f"--resume --steps {steps}"))["losses"]
        self.assert_near(losses, alone)
        self.assertEqual(len(whole["losses"]), len(losses))

    # Fails if the default batch size leaves a rank without work, or if a batch smaller than the
    # number of ranks is accepted.
    def test_batch(self):
        self.assertEqual(self.result(self.train("none", "--steps 1", 3))["steps"], 1)
        state = json.loads(pathlib.Path(self.path("none"), "trainer_state.json").read_text())
        self.assertEqual(state["options"]["batch_size"], 3)
        for options, text in (("--batch-size 1", "batch-size is out of range: it counts the sequences of all ranks; got 1, want 2 or more"),
                              ("--graph", "option graph"), ("--bucket-cap-mb 0", "bucket-cap-mb")):
            done = self.train("wrong", f"--steps 1 {options}", 2)
            self.assertIn(text, done.stderr)
            self.assertEqual((done.returncode, done.stdout), (1 if "graph" in text else 2, ""), done.stderr)

    def start(self, out, options):
        """Start a job of two ranks and return its process after a few training steps."""
        environment = dict(os.environ, PATH=BIN + os.pathsep + os.environ["PATH"], OMP_NUM_THREADS="1", DS_ACCELERATOR="cpu")
        process = subprocess.Popen(["bash", "-c", "exec " + self.command(out, options, 2)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=environment, start_new_session=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        for _ in range(5):
            self.assertTrue(process.stdout.readline())
        return process

    def process_of_rank(self, rank):
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                command = pathlib.Path("/proc", name, "cmdline").read_bytes().split(b"\0")
                if command[1:2] == [b"train"] and os.fsencode(self.folder) in b" ".join(command):
                    if f"RANK={rank}".encode() in pathlib.Path("/proc", name, "environ").read_bytes().split(b"\0"):
                        return int(name)
            except OSError:
                pass
        self.fail("no such rank")

    # Fails if other ranks wait for a killed rank, or if the checkpoint cannot be resumed.
    def test_killed_rank_ends_job(self):
        for rank in (1, 0):
            process = self.start("killed", "--steps 1000000 --save-every 1")
            os.kill(self.process_of_rank(rank), signal.SIGKILL)
            _, errors = process.communicate(timeout=100)
            self.assertEqual(process.returncode, 137, errors)
            self.assertIn(f"rank {rank}", errors)
            state = json.loads(pathlib.Path(self.path("killed"), "trainer_state.json").read_text())
            self.assertGreaterEqual(state["step"], 3)
            resumed = self.result(self.train("killed", f"--resume --steps {state['step'] + 2}", 2))
            self.assertEqual(resumed["steps"], state["step"] + 2)

    # Fails if SIGINT does not make all ranks write a checkpoint and stop after the same step.
    def test_interruption(self):
        process = self.start("stopped", "--steps 1000000")
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 130, errors)
        last = json.loads(output.splitlines()[-1])
        self.assertTrue(last["interrupted"])
        resumed = self.result(self.train("stopped", f"--resume --steps {last['steps'] + 1}"))
        self.assertEqual(resumed["steps"], last["steps"] + 1)


if __name__ == "__main__":
    unittest.main()
