"""Tests that a training run that is killed at random times can be resumed each time, and ends with
the weights of an uninterrupted run.
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../e2e"))

from small_model import SMALL, SmallModelTest  # noqa: E402

KILLS = 50


class TrainKilled(SmallModelTest):
    def start(self, options, out):
        words = [os.environ["ANYACCEL_PROGRAM"], "train", "--out", out, "--json", *options]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("ANYACCEL_", "DS_", "SIM_"))}
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)

    def finish(self, options, out):
        with self.start(options, out) as process:
            process.stdout.read()
        self.assertEqual(process.returncode, 0)

    def weights(self, out):
        return (pathlib.Path(out) / "model.safetensors").read_bytes()

    # Fails if a kill leaves a mixture of two checkpoints, or if the run cannot be resumed from the
    # last checkpoint.
    def test_kills_change_nothing(self):
        seed = random.SystemRandom().randrange(1 << 32)
        moments = random.Random(seed)
        new = ["--data", self.data, *SMALL.split(), "--steps", "2000", "--dropout", "0.1", "--save-every", "1"]
        whole, killed = os.path.join(self.folder, "whole"), os.path.join(self.folder, "killed")
        self.finish(new, whole)
        # Kill the first run after its first checkpoint. From then on, there is always a checkpoint.
        with self.start(new, killed) as process:
            while not os.path.exists(os.path.join(killed, "config.json")) and process.poll() is None:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        for number in range(KILLS):
            with self.subTest(seed=seed, number=number):
                with self.start(["--resume"], killed) as process:
                    for _ in range(moments.randrange(20)):
                        process.stdout.readline()
                    time.sleep(moments.uniform(0.0, 0.02))
                    process.send_signal(signal.SIGKILL)
                self.assertIn(process.returncode, (0, -signal.SIGKILL))
        self.finish(["--resume"], killed)
        self.assertEqual(self.weights(killed), self.weights(whole), f"seed {seed}")
        self.assertEqual([name for name in os.listdir(killed) if name.endswith(".part")], [])


if __name__ == "__main__":
    unittest.main()
