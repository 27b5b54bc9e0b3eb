"""Tests of `anyaccel sim run`, which runs programs that do not use AnyAccel on the simulated
accelerator.
"""
import functools
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from shell import libtorch_accelerator

PROGRAM = os.environ["ANYACCEL_PROGRAM"]
PYTHON = os.environ["ANYACCEL_TEST_PYTHON"]


def run(*arguments, **environment):
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("SIM_", "DS_"))}
    return subprocess.run([PROGRAM, "sim", "run", *map(str, arguments)], capture_output=True, text=True, env={**variables, **environment},
                          timeout=300)


@functools.lru_cache
def has_torch():
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    return subprocess.run([PYTHON, "-c", code], capture_output=True).returncode == 0


class SimRun(unittest.TestCase):
    # Fails if an invalid command line is accepted, or if the error does not name the cause.
    def test_invalid_command_lines(self):
        for arguments, words in (((), "no program"), (("--nonsense", "--", "true"), "--nonsense"), (("--devices",), "--devices"),
                                 (("--check", "maybe", "--", "true"), "maybe")):
            result = run(*arguments)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(words, result.stderr)
        result = run("--", "no-such-program-here")
        self.assertEqual(result.returncode, 1)
        self.assertIn("no-such-program-here", result.stderr)

    # Fails if arguments or options do not reach the program, or if its exit code is lost.
    def test_arguments_and_exit_code(self):
        result = run("--devices", "3", "--memory=64MiB", "--", "sh", "-c", 'echo "$1 $SIM_DEVICES $SIM_MEMORY $DS_ACCELERATOR"; exit 7', "sh", "a b")
        self.assertEqual((result.returncode, result.stdout), (7, "a b 3 64MiB sim\n"), result.stderr)

    # Fails if an option with `_` instead of `-` is rejected, or if an argument of the program is
    # parsed as an option.
    def test_underscores_in_options(self):
        result = run("--stands_in_for", "npu", "--devices=2", "--log_level", "warning", "sh", "-c", 'echo "$SIM_STANDS_IN_FOR $SIM_DEVICES $ANYACCEL_LOG_LEVEL $*"', "sh",
                     "--stands_in_for", "--log_level", "loud")
        self.assertEqual((result.returncode, result.stdout), (0, "npu 2 warning --stands_in_for --log_level loud\n"), result.stderr)
        self.assertEqual(run("--log-level", "loud", "--", "true").returncode, 2)

    # Fails if a misspelled option gets no suggestion.
    def test_misspelled_option(self):
        self.assertIn("unknown option \"--devises\"; did you mean '--devices'?\nTry 'anyaccel sim --help'.", run("--devises", "2", "--", "true").stderr)

    @unittest.skipUnless(has_torch(), "the tests' Python has no torch")
    # Fails if a Python program that uses only torch does not find the simulated devices.
    def test_python_with_torch_alone(self):
        code = "import torch; x = torch.ones(4, device=torch.accelerator.current_accelerator()); print(x.device, x.sum().item(), torch.accelerator.device_count())"
        result = run("--devices", "3", "--", PYTHON, "-c", code)
        self.assertEqual(result.stdout, "sim:0 4.0 3\n", result.stderr)

    @unittest.skipUnless(has_torch(), "the tests' Python has no torch")
    # Fails if the simulator is not loaded because a library has checked for torch before it is
    # imported.
    def test_python_that_looks_for_torch_first(self):
        code = "import importlib.util; assert importlib.util.find_spec('torch').origin; import torch; print(torch.ones(2, device='sim').device)"
        result = run("--", PYTHON, "-c", code)
        self.assertEqual(result.stdout, "sim:0\n", result.stderr)

    @unittest.skipUnless(has_torch(), "the tests' Python has no torch")
    # Fails if the simulator cannot stand in for a vendor's device type in Python, for example
    # because it starts too late.
    def test_python_stands_in(self):
        code = """import sys, torch
x = torch.ones(4, device=sys.argv[1]); x.requires_grad_(); (x * 2).sum().backward(); print(x.device, x.grad.sum().item())"""
        for name in ("npu", "hpu"):
            result = run("--stands-in-for", name, "--", PYTHON, "-c", code, name)
            if name == "hpu" and libtorch_accelerator():
                self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
                self.assertIn("was built for another accelerator", result.stderr)
            else:
                self.assertEqual(result.stdout, f"{name}:0 8.0\n", result.stderr)

    @unittest.skipUnless(has_torch(), "the tests' Python has no torch")
    # Fails if a program written for one vendor's torch module does not run on the simulator that
    # stands in for that vendor.
    def test_python_written_for_a_vendor(self):
        code = """import sys, torch
name = sys.argv[1]
module = getattr(torch, name)
assert module.is_available() and module.device_count() == 2 == torch.accelerator.device_count()
x = torch.ones(4, 4, device=name, requires_grad=True)
with torch.autocast(name, dtype=torch.bfloat16):
    assert (x @ x).dtype is torch.bfloat16
stream = module.Stream()
stream.wait_stream(module.current_stream())
with module.stream(stream):
    (x * 2).sum().backward()
stream.synchronize()
torch.optim.AdamW([x]).step()
module.synchronize()
import anyaccel
accelerator = anyaccel.get_accelerator()
print(module.current_device(), accelerator.device_type(), accelerator.name(), x.grad.sum().item(), x.to(name + ":1").device, module.memory_allocated() > 0)"""
        for name, accelerator in (("npu", "npu"), ("mycard", "sim")) if libtorch_accelerator() else (("cuda", "cuda"), ("mtia", "sim")):
            result = run("--stands-in-for", name, "--check", "abort", "--", PYTHON, "-c", code, name)
            self.assertEqual(result.stdout, f"0 {name} {accelerator} 32.0 {name}:1 True\n", result.stderr)

    @unittest.skipUnless(has_torch(), "the tests' Python has no torch")
    # Fails if the simulator does not provide a vendor's communication backend, or torch's default
    # one.
    def test_torch_distributed(self):
        code = """import sys, torch, torch.distributed as dist
name, backend = sys.argv[1], sys.argv[2] or None
dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
x = torch.ones(3, device=name) * 2
dist.all_reduce(x)
print(x.sum().item(), dist.group.WORLD._get_backend(torch.device(name)).name())
dist.destroy_process_group()"""
        for name, backend in (("npu", "hccl"), ("mlu" if libtorch_accelerator() else "cuda", "")):
            result = run("--stands-in-for", name, "--", PYTHON, "-c", code, name, backend)
            self.assertEqual(result.stdout, "6.0 staged\n", result.stderr)

    @unittest.skipUnless(has_torch(), "the tests' Python has no torch")
    # Fails if a stream's worker waits for the GIL, which the program holds while it waits for the
    # stream. DTensor passes Python objects for numbers, and calls ops with the GIL held.
    def test_waiting_with_the_gil(self):
        code = """import faulthandler; faulthandler.dump_traceback_later(100, exit=True)
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_tensor, Replicate
dist.init_process_group("staged", store=dist.HashStore(), rank=0, world_size=1)
x = distribute_tensor(torch.ones(4, device="sim"), init_device_mesh("sim", (1,)), [Replicate()])
for _ in range(3):
    y = torch.add(x * 2.0 + 1.0, 1.5, alpha=2).sum().item()
print(y)"""
        result = run("--", PYTHON, "-c", code, SIM_LATENCY="2ms")
        self.assertEqual(result.stdout, "24.0\n", result.stderr)

    @unittest.skipUnless(has_torch(), "the tests' Python has no torch")
    # Fails if no message is printed when sitecustomize has already imported torch. Also fails if
    # the user's sitecustomize does not run.
    def test_torch_imported_earlier(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "sitecustomize.py").write_text("import torch\nprint('mine ran')\n")
            result = run("--stands-in-for", "cuda", "--", PYTHON, "-c", "print('program ran')", PYTHONPATH=folder)
            self.assertEqual((result.returncode, result.stdout), (1, "mine ran\n"), result.stderr)
            self.assertIn("torch was imported before", result.stderr)
            result = run("--", PYTHON, "-c", "import torch; print(torch.ones(2, device='sim').sum().item())", PYTHONPATH=folder)
            self.assertEqual(result.stdout, "mine ran\n2.0\n", result.stderr)
            self.assertIn("torch was imported before", result.stderr)

    # Fails if torch is imported into a Python program that does not use torch.
    def test_python_without_torch(self):
        result = run("--", sys.executable, "-c", "import sys; print('torch' in sys.modules)")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "False\n", ""))

    # Fails if a binary that uses only torch does not find the simulator, or if it continues when
    # the simulator cannot start.
    def test_binary_with_torch_alone(self):
        program = os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "tests/fakes/torch_program")
        result = run("--devices", "3", "--", program)
        self.assertEqual((result.returncode, result.stdout), (0, "sim 3 4\n"), result.stderr)
        result = run("--devices", "many", "--", program)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertIn("SIM_DEVICES", result.stderr)

    # Fails if a binary that uses get_accelerator() does not get the simulator.
    def test_binary(self):
        result = run("--devices", "2", "--", PROGRAM, "report")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("sim", result.stdout)


if __name__ == "__main__":
    if subprocess.run([PROGRAM, "sim", "--help"], capture_output=True).returncode:
        print("SKIP: this build has no simulator")
        sys.exit(77)
    unittest.main()
