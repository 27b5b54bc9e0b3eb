"""The wheel: built as `pip install .` builds it, installed into an environment of its own beside the torch of the build, and used there."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(os.environ["ANYACCEL_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["ANYACCEL_BUILD_DIR"])
PYTHON = os.environ["ANYACCEL_TEST_PYTHON"]
ENVIRONMENT = {key: value for key, value in os.environ.items()
               if not key.startswith(("ANYACCEL_", "DS_", "SIM_", "PYTHONPATH", "Torch_DIR", "VIRTUAL_ENV"))}


def run(*command, check=True, **options):
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**ENVIRONMENT, **options.pop("env", {})}, **options)
    if check and result.returncode:
        raise AssertionError(f"{' '.join(map(str, command))}: exit status {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def cached(name):
    match = re.search(rf"^{name}:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return match.group(1) if match else ""


def has(module):
    return run(PYTHON, "-c", f"import {module}", check=False).returncode == 0


def missing():
    if os.environ.get("ANYACCEL_TEST_WHEEL") != "1":
        return "a wheel takes minutes of compiling; ANYACCEL_TEST_WHEEL=1 builds and tests one"
    if cached("ANYACCEL_BUILD_PYTHON") != "ON" or cached("ANYACCEL_SANITIZE") or cached("ANYACCEL_MINIMAL") == "ON":
        return "wheels are of builds with the Python package and the program"
    for module in ("scikit_build_core", "pip"):
        if not has(module):
            return f"{module} is not installed"
    return None


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        # Without isolation nothing is downloaded; with the compiler cache of the build little is compiled.
        run(PYTHON, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", cls.folder, f"-Cbuild-dir={BUILD}/wheel", SOURCE,
            env={"CMAKE_BUILD_PARALLEL_LEVEL": "2"})
        (cls.wheel,) = cls.folder.glob("*.whl")
        run(PYTHON, "-m", "venv", "--without-pip", cls.folder / "fresh")
        cls.python = cls.folder / "fresh/bin/python3"
        cls.site = pathlib.Path(run(cls.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
        torch = run(PYTHON, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])").stdout.strip()
        (cls.site / "torch_at_hand.pth").write_text(os.path.dirname(torch) + "\n")
        run(PYTHON, "-m", "pip", "--python", cls.python, "install", "-q", "--no-deps", "--no-index", cls.wheel)

    # Breaks when a part is left out, tests get in, or a file is in there twice because a wheel holds no links.
    def test_contents(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
            sizes = {info.filename: (info.file_size, info.CRC) for info in wheel.infolist()}
            metadata = wheel.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
        for part in ("anyaccel/__init__.py", "anyaccel/py.typed", "anyaccel/accelerator/accelerator.pyi", "anyaccel/bin/anyaccel",
                     "anyaccel/lib/libanyaccel.so.0", "anyaccel/lib/libanyaccel_cli.so", "anyaccel/lib/libanyaccel_conformance.so.0",
                     "anyaccel/include/anyaccel/accelerator.h", "anyaccel/lib/cmake/anyaccel/anyaccelConfig.cmake",
                     "anyaccel/share/anyaccel/ops/cpu_adam/cpu_adam.op", "anyaccel/share/anyaccel/backend_template/CMakeLists.txt"):
            self.assertIn(part, names)
        self.assertEqual([n for n in names if not re.match(r"anyaccel(-[^/]*\.(dist-info|data))?/", n)], [])
        tests = [n for n in names if re.search(r"unit_|_test\.(py|cpp)$|\.bench\.|/libfake_", n) and "/backend_template/" not in n]
        self.assertEqual(tests, [])
        big = [known for name, known in sizes.items() if re.match(r"anyaccel/lib/[^/]*\.so", name)]
        self.assertLessEqual(len(big) - len(set(big)), 6)  # the names that the linker looks for, of the libraries to link against
        version = re.search(r"project\(anyaccel VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text()).group(1)
        self.assertIn(f"\nVersion: {version}\n", metadata)
        self.assertIn("Requires-Dist: torch", metadata)

    # Breaks when the installed package needs the build tree, or its program is not found by `python -m anyaccel` and by its own name.
    def test_program(self):
        report = json.loads(run(self.python, "-m", "anyaccel", "report", "--json", env={"DS_ACCELERATOR": "cpu"}).stdout)
        self.assertEqual(report["accelerator"], "cpu")
        builders = {builder["class_name"]: builder for builder in report["op_builders"]}
        self.assertTrue(builders["CPUAdamBuilder"]["compatible"], builders["CPUAdamBuilder"])
        self.assertEqual(run(self.python, "-m", "anyaccel", "no-such", check=False).returncode, 2)
        script = run(self.python.with_name("anyaccel"), "--version").stdout
        self.assertEqual(script, run(self.python, "-m", "anyaccel", "--version").stdout)
        for file in ("lib/libanyaccel.so.0", "bin/anyaccel"):
            libraries = run("ldd", self.site / "anyaccel" / file).stdout
            self.assertNotIn("not found", libraries)
            self.assertNotIn(str(BUILD), libraries)

    # Breaks when an op's library, or the conformance kit, is not where the wheel's own libraries look.
    def test_ops_and_kit(self):
        code = ("import anyaccel, torch; from anyaccel.ops import cpu_adam; a = anyaccel.get_accelerator(); "
                "print(a.create_op_builder('CPUAdamBuilder').load().__name__, anyaccel.report(show=False)['versions']['torch (Python)'])")
        self.assertRegex(run(self.python, "-c", code, env={"DS_ACCELERATOR": "cpu"}).stdout, r"^anyaccel\.ops\.cpu_adam 2\.")
        run(self.python, "-m", "anyaccel", "conformance", "--backend", "cpu", "--suite", "identity")

    # Breaks when what DeepSpeed's users write does not run from the wheel.
    def test_example_of_the_cpu(self):
        text = (SOURCE / "tests/python/seeds/cpu.txt").read_text().replace("deepspeed", "anyaccel")
        self.assertIn("Device: cpu\n", run(self.python, "-c", text, env={"ANYACCEL_CCL": "off"}).stdout)

    # Breaks when the simulator of the wheel does not find its parts, or the package beside them.
    def test_sim_run(self):
        if cached("ANYACCEL_SIM") != "ON":
            self.skipTest("this build has no simulator")
        code = "import torch; print(torch.ones(2, device='sim').sum().item())"
        self.assertEqual(run(self.python, "-m", "anyaccel", "sim", "run", "--", self.python, "-c", code).stdout, "2.0\n")

    # Breaks when a Python without torch gets anything but a sentence that says what to install.
    def test_no_torch_is_said(self):
        empty = self.folder / "empty"
        run(sys.executable, "-m", "venv", "--without-pip", empty)
        done = run("cmake", "-S", SOURCE, "-B", self.folder / "none", "-G", "Ninja", "-DSKBUILD=2", f"-DPython_EXECUTABLE={empty}/bin/python3",
                   check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("pip install 'torch>=2.11,<2.14'", " ".join(done.stderr.split()))


if __name__ == "__main__":
    reason = missing()
    if reason:
        print(f"SKIP: {reason}")
        sys.exit(77)
    unittest.main()
