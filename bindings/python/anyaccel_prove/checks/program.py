"""Trains and generates with the program `anyaccel`, on the device and on the CPU.

usage: python3 -m anyaccel_prove.checks.program PROGRAM FOLDER [--only PATTERN]
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

from .protocol import Results, Skip

STEPS = 40
MODEL = [
    "--hidden", "64", "--layers", "2", "--heads", "2", "--kv-heads", "2", "--head-dim", "32", "--intermediate", "160", "--context",
    "64", "--vocab-size", "257", "--batch-size", "4", "--lr", "0.003"
]


def call(backend, *words):
    """Run the program and return its standard output."""
    done = subprocess.run([str(word) for word in words],
                          capture_output=True,
                          text=True,
                          env={**os.environ, "DS_ACCELERATOR": backend})
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 0, f"exit status {done.returncode}: {lines[-1] if lines else 'no message'}"
    return done.stdout


def losses(output):
    return [found["loss"] for found in map(json.loads, output.splitlines()) if "loss" in found and "step" in found]


class Program:
    def __init__(self, program, folder):
        self.program, self.folder, self.backend = program, folder, os.environ.get("DS_ACCELERATOR") or "cpu"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "text").mkdir(parents=True)
        (folder / "text/numbers.txt").write_text("".join(f"The number after {i} is {i + 1}.\n" for i in range(4000)))

    def train(self, backend):
        out = self.folder / backend
        if not (out / "config.json").exists():
            found = losses(
                call(backend, self.program, "train", "--data", self.folder / "text", "--out", out, "--steps", STEPS,
                     "--held-out-tokens", 1024, "--json", *MODEL))
            (self.folder / f"{backend}.json").write_text(json.dumps(found))
        return json.loads((self.folder / f"{backend}.json").read_text())

    def train_check(self):
        there, here = self.train(self.backend), self.train("cpu")
        assert len(there) == len(here) and here, f"{len(there)} losses, expected {len(here)}"
        off = max(abs(a - b) for a, b in zip(here, there)) / here[0]  # late losses are small, and rounding errors grow
        assert there[-1] < 0.9 * there[0], f"the loss did not fall: {there[0]:.3f} to {there[-1]:.3f}"
        assert off <= 0.05, f"the losses differ from the CPU's by up to {off:.3g} of the first loss, expected at most 0.05"
        return f"loss {there[0]:.3f} to {there[-1]:.3f} in {len(there)} steps, at most {off:.2g} of the first loss from the CPU's"

    def generate_check(self, *options):
        if self.backend == "cpu":
            raise Skip("the device is the CPU")
        self.train("cpu")
        words = [
            self.program, "generate", "--model", self.folder / "cpu", "--greedy", "--prompt", "The number after 12", "-n", 32,
            "--raw", "--no-model-cache", *options
        ]
        there, here = call(self.backend, *words), call("cpu", *words)
        assert there == here, f"generated {there!r}, expected {here!r}"
        return f"generated {there[-60:]!r}"


def main():
    parser = argparse.ArgumentParser(prog="python3 -m anyaccel_prove.checks.program", description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path, help="the program anyaccel")
    parser.add_argument("folder", type=pathlib.Path, help="folder for texts and models; existing content is deleted")
    parser.add_argument("--only", metavar="PATTERN", default="*", help="run only matching checks (default: all)")
    options = parser.parse_args()
    program, out = Program(options.program, options.folder), Results(options.only)
    out.run("train", program.train_check)
    out.run("generate", program.generate_check)
    out.run("generate-int8", program.generate_check, "--quantize", "int8")
    return out.end()


if __name__ == "__main__":
    sys.exit(main())
