"""Tests of `anyaccel run`, with and without --as-cuda."""
import json
import os
import subprocess
import tempfile
import unittest

from sim_run_test import PROGRAM, PYTHON, has_torch


def run(*arguments, **environment):
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("ANYACCEL_AS_CUDA", "SIM_", "DS_", "CUDA_"))}
    return subprocess.run([PROGRAM, "run", *map(str, arguments)], capture_output=True, text=True, env={**variables, **environment}, timeout=300)


class Run(unittest.TestCase):
    # Fails if an invalid command line is accepted, or if the error does not name the cause.
    def test_invalid_command_lines(self):
        for arguments, words in (((), "no program"), (("--as-cuda",), "no program"), (("--as-cude", "--", "true"), "--as-cuda"),
                                 (("--quiet", "--", "true"), "require --as-cuda"), (("--pretend", "NVIDIA H100", "--", "true"), "require --as-cuda"),
                                 (("--log-level", "loud", "--", "true"), "loud")):
            result = run(*arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr)
        result = run("--", "no-such-program-here")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no-such-program-here", result.stderr)

    # Fails if arguments or options do not reach the program, if its exit code is lost, or if CUDA
    # is redirected without --as-cuda.
    def test_arguments_and_exit_code(self):
        line = 'echo "$1 $ANYACCEL_LOG_LEVEL $ANYACCEL_AS_CUDA"; exit 7'
        result = run("--log-level", "warning", "--", "sh", "-c", line, "sh", "--quiet")
        self.assertEqual((result.returncode, result.stdout), (7, "--quiet warning \n"), result.stderr)
        result = run("--as_cuda", "sh", "-c", line, "sh", "a b")
        self.assertEqual((result.returncode, result.stdout), (7, "a b  1\n"), result.stderr)

    @unittest.skipUnless(has_torch(), "the tests' Python has no torch")
    # Fails if a child process does not inherit the redirection, or if the report is wrong.
    def test_child_processes_and_report(self):
        child = "import torch; print(torch.ones(2, device='cuda').is_cuda, torch.cuda.get_device_name())"
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "report.json")
            for pretend, name in ((), None), (("--pretend", "NVIDIA A100"), "NVIDIA A100-SXM4-80GB"):
                result = run("--as-cuda", *pretend, "--report", file, "--", "sh", "-c", f'{PYTHON} -c "{child}"', DS_ACCELERATOR="cpu")
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertTrue(result.stdout.startswith("True "), result.stdout)
                self.assertTrue(name is None or name in result.stdout, result.stdout)
                with open(file) as stream:
                    self.assertEqual({entry["name"] for entry in json.load(stream)["redirected"]}, {'device "cuda"', "torch.cuda.get_device_name"})
        self.assertIn("CUDA was redirected to cpu", run("--as-cuda", "--", PYTHON, "-c", child, DS_ACCELERATOR="cpu").stderr)
        self.assertEqual(run("--as-cuda", "--quiet", "--", PYTHON, "-c", child, DS_ACCELERATOR="cpu").stderr, "")

    @unittest.skipUnless(has_torch(), "the tests' Python has no torch")
    # Fails if a Python process that does not use torch is affected.
    def test_programs_without_torch(self):
        result = run("--as-cuda", "--", PYTHON, "-c", "import sys; print('torch' in sys.modules)")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "False\n", ""))


if __name__ == "__main__":
    unittest.main()
