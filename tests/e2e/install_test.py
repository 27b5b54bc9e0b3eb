"""Install AnyAccel, build and run the examples against it outside the tree, and uninstall it."""
import json
import os
import re
import shutil
import socket
import subprocess
import unittest

from installed import BUILD, ENVIRONMENT, SOURCE, build, cached, configure, install, run


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder, cls.prefix = install(cls)
        # The examples are copied so that they cannot find files of the tree by accident.
        cls.example = shutil.copytree(SOURCE / "examples/ten_lines", cls.folder / "example")
        cls.captured_step = shutil.copytree(SOURCE / "examples/captured_step", cls.folder / "captured_step")
        cls.environment = ENVIRONMENT

    def configure(self, name, *options, check=True, source=None):
        return configure(source or self.example, self.folder / name, self.prefix, *options, check=check)

    # Fails if an installed header, library or package file is missing or refers to the build tree.
    def test_1_example(self):
        self.configure("built")
        build(self.folder / "built", self.prefix)
        output = run(self.folder / "built/ten_lines", env={**self.environment, "DS_ACCELERATOR": "cpu"}).stdout
        number = re.fullmatch(r"cpu of (\d+): trace ([0-9.e+]+), (\d+) bytes in use\n", output)
        self.assertTrue(number, output)
        # The trace of x x^T is the sum of 2^20 squares with mean 1 and variance 2. The tolerance is
        # 10 standard deviations.
        self.assertAlmostEqual(float(number.group(2)), 2.0**20, delta=15000)
        # x and the result are live; the product has been freed.
        self.assertGreaterEqual(int(number.group(3)), 4 * 2**20)
        self.assertLess(int(number.group(3)), 5 * 2**20)

    # Fails if the graph headers are not installed, or if a replayed step gives different losses
    # than an eager one.
    def test_1_captured_step(self):
        self.configure("captured", source=self.captured_step)
        build(self.folder / "captured", self.prefix)
        output = run(self.folder / "captured/captured_step", env={**self.environment, "DS_ACCELERATOR": "cpu"}).stdout
        self.assertRegex(output, r"^cpu: loss [0-9.e-]+, losses equal bit by bit, a step takes [0-9.]+ us, replayed [0-9.]+ us\n$")

    # Fails if an external program cannot train with the host optimizer, or if the loss does not
    # fall.
    def test_1_offload_training(self):
        if cached("ANYACCEL_MINIMAL") == "ON":
            self.skipTest("this build has no ops")
        project = shutil.copytree(SOURCE / "examples/offload_training", self.folder / "offload_training")
        self.configure("offload", source=project)
        build(self.folder / "offload", self.prefix)
        for name in ["cpu"] + ["sim"] * (cached("ANYACCEL_SIM") == "ON"):
            output = run(self.folder / "offload/offload_training", env={**self.environment, "DS_ACCELERATOR": name}).stdout
            found = re.fullmatch(name + r": loss ([0-9.]+) to ([0-9.]+) in 300 steps of [0-9.]+ us, [0-9.]+ us of them in CPUAdam\n", output)
            self.assertTrue(found, output)
            self.assertLess(float(found.group(2)), float(found.group(1)) / 5)

    # Fails if processes of an external program cannot create a process group and all-reduce.
    def test_1_all_reduce(self):
        if cached("ANYACCEL_MINIMAL") == "ON":
            self.skipTest("this build has no communication")
        project = shutil.copytree(SOURCE / "examples/all_reduce", self.folder / "all_reduce")
        self.configure("group", source=project)
        build(self.folder / "group", self.prefix)
        self.assertEqual(self.two_ranks(self.folder / "group/all_reduce"), ["2 ranks on cpu: sum 3\n", ""])

    def two_ranks(self, program):
        """Run a program as two ranks and return the output of each."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        ranks = []
        for rank in range(2):
            # oneCCL, if installed, would print a message about CCL_LOG_LEVEL into the compared
            # output.
            environment = {**self.environment, "ANYACCEL_CCL": "off", "DS_ACCELERATOR": "cpu", "RANK": str(rank), "LOCAL_RANK": str(rank),
                           "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            ranks.append(subprocess.Popen([program], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0, 0], outputs)
        return outputs

    # Fails if an external program cannot shard its own module across ranks, or if the loss does not
    # fall.
    def test_1_sharded_module(self):
        if cached("ANYACCEL_MINIMAL") == "ON":
            self.skipTest("this build has no communication")
        self.configure("sharded", source=shutil.copytree(SOURCE / "examples/sharded_module", self.folder / "sharded_module"))
        build(self.folder / "sharded", self.prefix)
        first, second = self.two_ranks(self.folder / "sharded/sharded_module")
        self.assertEqual(second, "")
        self.assertIn("mlp.down_proj: row, 64 x 128 of 64 x 256\n", first)
        self.assertIn("mlp.up_proj: column, 128 x 64 of 256 x 64\n", first)
        losses = [float(loss) for loss in re.findall(r"step \d: loss ([0-9.]+)", first)]
        self.assertEqual(len(losses), 5, first)
        self.assertLess(losses[-1], losses[0] - 0.1)

    # Fails if an external program cannot fine-tune a checkpoint or train an adapter over quantized
    # weights, if the loss does not fall, or if the results cannot be loaded.
    def test_1_fine_tuning(self):
        if cached("ANYACCEL_MINIMAL") == "ON":
            self.skipTest("this build has no language models")
        program = self.prefix / "bin/anyaccel"
        text = self.folder / "text.txt"
        text.write_text("".join(f"line {i} of a text that repeats itself\n" for i in range(400)))
        model = self.folder / "model"
        size = "--hidden 64 --layers 1 --heads 2 --kv-heads 2 --head-dim 32 --intermediate 128 --context 32 --vocab-size 257 --steps 5"
        environment = {**self.environment, "DS_ACCELERATOR": "cpu"}
        run(program, "train", "--data", text, "--out", model, *size.split(), env=environment)
        for name in ("fine_tune", "lora"):
            self.configure(f"{name}-built", source=shutil.copytree(SOURCE / "examples" / name, self.folder / name))
            build(self.folder / f"{name}-built", self.prefix)
        output = run(self.folder / "fine_tune-built/fine_tune", model, text, self.folder / "tuned", "60", env=environment).stdout
        losses = [float(loss) for loss in re.findall(r"step \d+: loss ([0-9.]+)", output)]
        self.assertEqual(len(losses), 60, output)
        self.assertLess(losses[-1], losses[0] - 0.3)
        generated = run(program, "generate", "--model", self.folder / "tuned", "--prompt", "line 3", "-n", "4", env=environment).stdout
        self.assertTrue(generated)
        output = run(self.folder / "lora-built/lora", model, text, self.folder / "adapter", "20", env=environment).stdout
        self.assertIn("7 modules, 14 trained tensors\n", output)
        before, after, loaded = re.search(r"loss ([0-9.]+) to ([0-9.]+), loaded ([0-9.]+)", output).groups()
        self.assertLess(float(after), float(before) - 0.3)
        self.assertAlmostEqual(float(after), float(loaded), delta=1e-3)

    # Fails if an external program cannot link the conformance kit, or if its own cases do not run
    # alongside the kit's cases.
    def test_1_conformance_program(self):
        if cached("ANYACCEL_CONFORMANCE") != "ON":
            self.skipTest("this build has no conformance kit")
        project = shutil.copytree(SOURCE / "examples/conformance_program", self.folder / "conformance")
        self.configure("kit", source=project)
        run("cmake", "--build", self.folder / "kit", env=self.environment)
        done = subprocess.run([self.folder / "kit/my_conformance", "--backend=cpu", "--suite", "vendor", "--suite", "identity", "--json", "-"],
                              capture_output=True, text=True, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        outcomes = {f"{case['suite']}.{case['name']}": case["outcome"] for case in json.loads(done.stdout)["cases"]}
        self.assertEqual(outcomes["vendor.names_are_short"], "passed")
        self.assertEqual(outcomes["identity.name_is_set"], "passed")

    # Fails if the installed program does not run, or if it loads libraries from the build tree.
    def test_2_installed_program(self):
        program = self.prefix / "bin/anyaccel"
        self.assertIn("anyaccel", run(program, "--version", env=self.environment).stdout)
        listing = run("ldd", program, env=self.environment).stdout
        self.assertNotIn(str(BUILD), listing)
        self.assertNotIn("not found", listing)

    # Fails if the installed Python package cannot be imported, or if it loads libraries from the
    # build tree.
    def test_2_python_package(self):
        if cached("ANYACCEL_BUILD_PYTHON") != "ON":
            self.skipTest("this build has no Python package")
        site = self.prefix / cached("ANYACCEL_PYTHON_DIR")
        code = "import anyaccel; print(anyaccel.get_accelerator().name(), anyaccel.__file__)"
        result = run(os.environ["ANYACCEL_TEST_PYTHON"], "-c", code, env={**self.environment, "DS_ACCELERATOR": "cpu", "PYTHONPATH": str(site)})
        self.assertEqual(result.stdout.strip(), f"cpu {site}/anyaccel/__init__.py")
        (extension,) = site.glob("anyaccel/_native*.so")
        self.assertNotIn(str(BUILD), run("ldd", extension, env=self.environment).stdout)

    # Fails if the page's HTML, style or scripts are not installed, or if it requires torch.
    def test_2_profile_page(self):
        if cached("ANYACCEL_BUILD_PYTHON") != "ON":
            self.skipTest("this build has no Python package")
        site = self.prefix / cached("ANYACCEL_PYTHON_DIR")
        recording = self.folder / "profile/raw/host-1"
        recording.mkdir(parents=True)
        (recording / "process.json").write_text('{"pid": 1, "host": "host", "rank": 0}')
        (recording / "window-0001.json").write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5, "dur": 7}]}')
        blocked = self.folder / "blocked"
        blocked.mkdir()
        (blocked / "torch.py").write_text("raise ImportError('torch was imported')")
        done = run(os.environ["ANYACCEL_TEST_PYTHON"], "-m", "anyaccel.profiler", recording.parent.parent,
                   env={**self.environment, "PYTHONPATH": f"{blocked}:{site}"})
        self.assertIn("aten::mm", done.stdout)
        page = (recording.parent.parent / "profile.html").read_text()
        for part in ("Content-Security-Policy", "--accent:", "function drawRow", "makeTimeline"):
            self.assertIn(part, page)

    # Fails if the installed program does not find the simulator's library or the Python package.
    def test_2_sim_run(self):
        if cached("ANYACCEL_SIM") != "ON" or cached("ANYACCEL_BUILD_PYTHON") != "ON":
            self.skipTest("this build has no simulator or no Python package")
        code = "import torch, anyaccel; print(torch.ones(2, device='sim').sum().item(), anyaccel.__file__)"
        done = run(self.prefix / "bin/anyaccel", "sim", "run", "--", os.environ["ANYACCEL_TEST_PYTHON"], "-c", code, env=self.environment)
        self.assertEqual(done.stdout.strip(), f"2.0 {self.prefix / cached('ANYACCEL_PYTHON_DIR')}/anyaccel/__init__.py")

    # Fails if CMake accepts a LibTorch of a different version, or if the error does not name both
    # versions.
    def test_3_other_libtorch_is_rejected(self):
        other = self.folder / "libtorch"
        (other / "include/ATen").mkdir(parents=True)
        version = other / "include/torch/headeronly/version.h"
        version.parent.mkdir(parents=True)
        version.write_text("#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 10\n#define TORCH_VERSION_PATCH 7\n")
        result = self.configure("refused", f"-DTorch_DIR={other}/share/cmake/Torch", check=False)
        self.assertNotEqual(result.returncode, 0)
        text = " ".join(result.stdout.split())
        self.assertRegex(text, r"got 2\.10\.7, expected 2\.1[123], because this AnyAccel was built with 2\.1[123]\.\d")

    # Fails if uninstalling leaves a file behind, or if it removes a file that AnyAccel did not
    # install.
    def test_4_uninstall_leaves_nothing(self):
        foreign = self.prefix / "lib/other.txt"
        foreign.write_text("not ours")
        run("cmake", "-P", BUILD / "uninstall.cmake", env=self.environment)
        left = [p for p in self.prefix.rglob("*") if not p.is_dir()]
        self.assertEqual(left, [foreign])
        self.assertEqual([p for p in self.prefix.rglob("anyaccel*")], [])


if __name__ == "__main__":
    unittest.main()
