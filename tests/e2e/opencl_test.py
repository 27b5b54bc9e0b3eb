"""Tests of examples/opencl_backend: built outside the tree against the installed package, and run
on the machine's OpenCL device. Skipped if OpenCL is not installed.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

from installed import ENVIRONMENT, SOURCE, build, cached, configure, install, run

NAME = "ocl"
PROBE = """cmake_minimum_required(VERSION 3.22)
project(probe LANGUAGES CXX)
find_package(OpenCL REQUIRED)
add_executable(count count.cpp)
target_link_libraries(count PRIVATE OpenCL::OpenCL)
"""
COUNT = """#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>
int main() {
  cl_platform_id platforms[16];
  cl_uint count = 0, devices = 0;
  if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) return 1;
  for (cl_uint i = 0; i < count && i < 16; ++i)
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 0, nullptr, &devices) == CL_SUCCESS && devices > 0) return 0;
  return 1;
}
"""


def why_not():
    """Return why this machine cannot run the example, or None."""
    if cached("ANYACCEL_MINIMAL") == "ON" or cached("ANYACCEL_CONFORMANCE") != "ON":
        return "this build has no language models or no conformance kit"
    if cached("ANYACCEL_SANITIZE"):
        return "OpenCL's compiler does not run in a sanitized process"
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("CMakeLists.txt", PROBE), ("count.cpp", COUNT)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        made = subprocess.run(["cmake", "-G", "Ninja", "-S", folder, "-B", f"{folder}/build"], capture_output=True, text=True)
        if made.returncode:
            return "CMake finds no OpenCL headers and library; install opencl-headers and ocl-icd-opencl-dev"
        run("cmake", "--build", f"{folder}/build")
        if subprocess.run([f"{folder}/build/count"], timeout=60).returncode:
            return "OpenCL has no device; install pocl-opencl-icd or a vendor's driver"
    return None


class OpenCl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder, cls.prefix = install(cls)
        # A copy, so that the project cannot find files of the tree by accident.
        cls.project = shutil.copytree(SOURCE / "examples/opencl_backend", cls.folder / "project")
        cls.built = cls.folder / "built"
        configure(cls.project, cls.built, cls.prefix)
        build(cls.built, cls.prefix)

    def anyaccel(self, *words, check=True, **variables):
        variables = {"ANYACCEL_PLUGIN_PATH": str(self.built / "plugins"), "DS_ACCELERATOR": NAME, **variables}
        return run(self.prefix / "bin/anyaccel", *words, check=check, env={**ENVIRONMENT, **variables})

    # Fails if a kernel differs from the CPU, or if an op of the test has no kernel.
    def test_1_kernels(self):
        done = run("ctest", "--test-dir", self.built, "-V", "-R", "^ops$", env=ENVIRONMENT)
        self.assertRegex(done.stdout, r"ocl: [1-9]\d* tests, 0 failures")

    # Fails if a wait hides the error of a kernel, if threads or devices corrupt a queue's state or
    # reuse memory too early, or if memory is mapped twice.
    def test_1_device(self):
        done = run("ctest", "--test-dir", self.built, "-V", "-R", "^device", env=ENVIRONMENT)
        self.assertEqual(len(re.findall(r"ocl: [1-9]\d* checks, 0 failures", done.stdout)), 2)

    # Fails if the losses differ from the CPU's, or if an op of a training step or of generation
    # runs on the host.
    def test_2_training_and_generation(self):
        words = ("train --steps 4 --hidden 64 --layers 1 --heads 1 --kv-heads 1 --intermediate 128 "
                 "--held-out-tokens 512 --json").split()

        def losses(model, **variables):
            text = self.anyaccel(*words, "--out", self.folder / model, **variables).stdout
            return [json.loads(line) for line in text.splitlines() if '"losses"' in line][-1], text
        there, text = losses("model", OCL_FALLBACK="error", OCL_COUNTS="1")
        host, _ = losses("model-cpu", DS_ACCELERATOR="cpu")
        self.assertEqual((there["accelerator"], host["accelerator"]), (NAME, "cpu"))
        self.assertEqual(len(there["losses"]), 4)
        for mine, its in zip(there["losses"] + [there["held_out_loss"]], host["losses"] + [host["held_out_loss"]]):
            self.assertAlmostEqual(mine, its, delta=1e-4 * its)
        self.assertRegex(text, r"ocl: [1-9]\d+ kernels took [0-9.]+ ms on the device; 0 ops took 0.0 ms on the host")
        prompt = ["generate", "--model", self.folder / "model", "--prompt", "the", "--max-new-tokens", "8", "--temperature", "0"]
        said = self.anyaccel(*prompt, OCL_FALLBACK="error").stdout
        self.assertEqual(said, self.anyaccel(*prompt, DS_ACCELERATOR="cpu").stdout)

    # Fails if the mode that tests rely on lets an op run on the host.
    def test_2_fallback_can_be_forbidden(self):
        case = ["conformance", "--case", "ops.cumsum.float32"]
        self.assertIn("conforms (1 case", self.anyaccel(*case).stdout)
        done = self.anyaccel(*case, check=False, OCL_FALLBACK="error")
        self.assertEqual(done.returncode, 1)
        self.assertIn("aten::cumsum.out has no OpenCL kernel", done.stdout)

    # Fails if the backend does not conform, on one device or on two.
    def test_3_conformance(self):
        for parts in (None, "2"):
            out = self.folder / f"report{parts}.json"
            self.anyaccel("conformance", "--json", out, **({"OCL_SUB_DEVICES": parts} if parts else {}))
            report = json.loads(out.read_text())
            self.assertTrue(report["summary"]["conforms"])
            self.assertEqual([c["name"] for c in report["cases"] if c["outcome"] == "failed"], [])
            # Work that runs while the host continues is the point of this example.
            passed = [c["name"] for c in report["cases"] if c["outcome"] == "passed"]
            self.assertIn("asynchronous_work_runs_beside_the_host", passed)
            if (os.cpu_count() or 1) < 2:
                break

    # Fails if the installed files are incomplete or depend on the build folder, or if a package
    # contains other files.
    def test_4_installation(self):
        run("cmake", "--install", self.built, "--prefix", self.prefix)
        plugins = next(self.prefix.glob("lib*/anyaccel/plugins"))
        self.addCleanup(lambda: [shutil.rmtree(p) if p.is_dir() else p.unlink() for p in plugins.glob(f"*{NAME}*")])
        text = self.anyaccel("report", ANYACCEL_PLUGIN_PATH="").stdout
        self.assertRegex(text, r"accelerator +ocl\n")
        self.assertRegex(" ".join(text.split()), r"ocl +loaded +\S*lib\S*/anyaccel/plugins/ocl.plugin|ocl loaded")
        case = ["conformance", "--case", "ops.mm.float32"]
        said = self.anyaccel(*case, ANYACCEL_PLUGIN_PATH="", OCL_FALLBACK="error").stdout
        self.assertIn("required       1 passed    0 failed", said)
        run("cpack", "-G", "TGZ", cwd=self.built)
        (package,) = self.built.glob("*.tar.gz")
        with tarfile.open(package) as archive:
            files = [member.name for member in archive.getmembers() if not member.isdir()]
        names = sorted(re.sub(r".*/anyaccel/plugins/", "", name) for name in files)
        sources = sorted(f"{NAME}/opencl/{p.name}" for p in (self.project / "opencl").iterdir())
        self.assertEqual(names, sorted([f"lib{'anyaccel_' + NAME}.so", f"{NAME}.plugin", *sources]))


if __name__ == "__main__":
    missing = why_not()
    if missing:
        print("SKIP:", missing)
        sys.exit(77)
    unittest.main()
