"""Tests of the wheel: built as by `pip install .`, and installed into a new environment with the
build's torch.
"""
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

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../e2e"))

import installed  # noqa: E402
from ci_shims import make_project, make_shims  # noqa: E402
from installed import BUILD, SOURCE, cached  # noqa: E402

PYTHON = os.environ["ANYACCEL_TEST_PYTHON"]
ENVIRONMENT = {key: value for key, value in installed.ENVIRONMENT.items() if not key.startswith(("SIM_", "PYTHONPATH", "VIRTUAL_ENV"))}
# This folder is next to the build folder, so that the sources have the same relative path and the
# compiler cache finds them.
FOLDER = BUILD.with_name(BUILD.name + "_wheel")


PYTEST_OPTIONS = ("-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir=.")
DEVICE_TEST = """
import torch

def test_device():
    assert torch.ones(2, device="cuda").sum().item() == 2
"""
RACE_TEST = """
def test_race():
    x = torch.ones(1 << 20, device="cuda")
    with torch.cuda.stream(torch.cuda.Stream()):
        x.add_(1)
"""


def run(*command, env=None, **options):
    return installed.run(*command, env={**ENVIRONMENT, **(env or {})}, stderr=subprocess.PIPE, **options)


def has(module):
    return run(PYTHON, "-c", f"import {module}", check=False).returncode == 0


def missing():
    if cached("ANYACCEL_BUILD_PYTHON") != "ON" or cached("ANYACCEL_SANITIZE") or cached("ANYACCEL_MINIMAL") == "ON":
        return "wheels require a build with the Python package and the program"
    for module in ("scikit_build_core", "pip"):
        if not has(module):
            return f"{module} is not installed"
    if not cached("ANYACCEL_CCACHE").startswith("/") and os.environ.get("ANYACCEL_TEST_WHEEL") != "1":
        return "without ccache, everything would be compiled again; set ANYACCEL_TEST_WHEEL=1 to run the test anyway"
    return None


def build_wheel(folder, *options):
    """Build the wheel into a folder and return its path. Only files that are missing from the
    compiler cache are compiled.
    """
    # The compiler cache depends on the compiler's name, so use the same name as the build.
    run(PYTHON, "-m", "pip", "wheel", "--no-deps", "-w", folder, f"-Cbuild-dir={FOLDER}", *options, SOURCE,
        env={"CMAKE_BUILD_PARALLEL_LEVEL": "2", "CXX": cached("CMAKE_CXX_COMPILER")})
    (wheel,) = folder.glob("*.whl")
    return wheel


def contents(wheel):
    """Return {file: (size, checksum)} of a wheel without its metadata."""
    with zipfile.ZipFile(wheel) as files:
        return {info.filename: (info.file_size, info.CRC) for info in files.infolist() if not re.search(r"\.dist-info/", info.filename)}


def environment_with_torch(folder):
    """Create an environment that contains only the build's torch. Return its Python and its
    site-packages folder.
    """
    run(PYTHON, "-m", "venv", "--without-pip", folder)
    python = folder / "bin/python3"
    site = pathlib.Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
    torch = run(PYTHON, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])").stdout.strip()
    (site / "torch_at_hand.pth").write_text(os.path.dirname(torch) + "\n")
    return python, site


def pip(python, *words):
    return run(PYTHON, "-m", "pip", "--python", python, *words)


def setUpModule():
    global folder, wheel
    folder = pathlib.Path(tempfile.mkdtemp())
    unittest.addModuleCleanup(shutil.rmtree, folder)
    # Without build isolation, pip downloads nothing.
    wheel = build_wheel(folder, "--no-build-isolation")


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder, cls.wheel = folder, wheel
        cls.python, cls.site = environment_with_torch(cls.folder / "fresh")
        pip(cls.python, "install", "-q", "--no-deps", "--no-index", cls.wheel)

    # Fails if the wheel lacks a part or contains tests. Also fails if a library is duplicated,
    # because wheels cannot contain symbolic links.
    def test_contents(self):
        sizes = contents(self.wheel)
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
            metadata = wheel.read(next(n for n in names if n.endswith(".dist-info/METADATA"))).decode()
        for part in ("anyaccel/__init__.py", "anyaccel/py.typed", "anyaccel/accelerator/accelerator.pyi", "anyaccel/bin/anyaccel",
                     "anyaccel/lib/libanyaccel.so.0", "anyaccel/lib/libanyaccel_cli.so", "anyaccel/lib/libanyaccel_conformance.so.0",
                     "anyaccel/include/anyaccel/accelerator.h", "anyaccel/lib/cmake/anyaccel/anyaccelConfig.cmake",
                     "anyaccel/share/anyaccel/ops/cpu_adam/cpu_adam.op", "anyaccel/share/anyaccel/backend_template/CMakeLists.txt"):
            self.assertIn(part, names)
        # Outside the package are only the hook for DeepSpeed, the pytest plugin and the packages
        # of `anyaccel port` and `anyaccel prove`. Python reads .pth files only in site-packages,
        # and the others must not import torch.
        self.assertEqual(sorted(n for n in names if not re.match(r"anyaccel(_port|_prove|-[^/]*\.(dist-info|data))?/", n)),
                         ["_anyaccel_deepspeed.py", "_anyaccel_pytest.py", "anyaccel_deepspeed.pth"])
        tests = [n for n in names if re.search(r"unit_|_test\.(py|cpp)$|\.bench\.|/libfake_", n) and "/backend_template/" not in n]
        self.assertEqual(tests, [])
        big = [known for name, known in sizes.items() if re.match(r"anyaccel/lib/[^/]*\.so", name)]
        # The unversioned names of the libraries base, anyaccel, comm, ops, text, llm and
        # conformance, which linkers use, are copies of the versioned files.
        self.assertLessEqual(len(big) - len(set(big)), 7)
        version = re.search(r"project\(anyaccel VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text()).group(1)
        self.assertIn(f"\nVersion: {version}\n", metadata)
        self.assertIn("Requires-Dist: torch", metadata)

    # Fails if a build with pip's build isolation, which hides the installed torch, fails or gives a
    # different wheel.
    def test_isolated_build(self):
        fetched = run(PYTHON, "-m", "pip", "download", "-q", "--no-deps", "-d", self.folder / "fetched", "scikit-build-core", check=False)
        if fetched.returncode:
            self.skipTest("pip cannot fetch scikit-build-core for an isolated build: " + fetched.stderr.strip().splitlines()[-1])
        (self.folder / "isolated").mkdir()
        self.assertEqual(contents(build_wheel(self.folder / "isolated")), contents(self.wheel))

    # Fails if mypy does not find the package's type stubs.
    def test_types(self):
        if not has("mypy"):
            self.skipTest("mypy is not installed")
        (self.folder / "client.py").write_text("from anyaccel import get_accelerator\nnumber: str = get_accelerator().device_count()\n")
        (self.folder / "mypy.ini").write_text("[mypy]\nstrict = True\n[mypy-torch.*]\nfollow_imports = skip\n")
        done = run(PYTHON, "-m", "mypy", "--python-executable", self.python, "--cache-dir", self.folder / "mypy", "client.py", cwd=self.folder, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn('client.py:2: error: Incompatible types in assignment (expression has type "int", variable has type "str")', done.stdout)
        self.assertIn("Found 1 error", done.stdout)

    # Fails if the hook for DeepSpeed is active without ANYACCEL_DEEPSPEED, or inactive with it.
    # Also fails if the hook imports torch.
    def test_hook_for_deepspeed(self):
        code = "import sys; print(any(type(f).__module__ == '_anyaccel_deepspeed' for f in sys.meta_path), 'torch' in sys.modules)"
        for value, found in (("1", "True False\n"), ("0", "False False\n")):
            self.assertEqual(run(self.python, "-c", code, env={"ANYACCEL_DEEPSPEED": value}).stdout, found)

    # Fails if uninstalling the package leaves a file behind, or if it removes a file of another
    # package.
    def test_uninstall_leaves_nothing(self):
        root = self.folder / "emptied"
        python, _ = environment_with_torch(root)

        def files():
            return sorted(str(path.relative_to(root)) for path in root.rglob("*"))

        before = files()
        pip(python, "install", "-q", "--no-deps", "--no-index", self.wheel)
        self.assertIn("bin/anyaccel", files())
        run(python, "-m", "anyaccel", "report", "--json", env={"DS_ACCELERATOR": "cpu"})
        run(python, "-c", "import anyaccel.deepspeed, anyaccel.ops.cpu_adam")
        pip(python, "uninstall", "-q", "-y", "anyaccel")
        self.assertEqual(files(), before)

    # Fails if the installed program needs the build tree, or if `python -m anyaccel` is not the
    # same program.
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

    # Fails if the wheel's libraries do not find an op's library or the conformance kit.
    def test_ops_and_kit(self):
        code = ("import anyaccel, torch; from anyaccel.ops import cpu_adam; a = anyaccel.get_accelerator(); "
                "print(a.create_op_builder('CPUAdamBuilder').load().__name__, anyaccel.report(show=False)['versions']['torch (Python)'])")
        self.assertRegex(run(self.python, "-c", code, env={"DS_ACCELERATOR": "cpu"}).stdout, r"^anyaccel\.ops\.cpu_adam 2\.")
        run(self.python, "-m", "anyaccel", "conformance", "--backend", "cpu", "--suite", "identity")

    # Fails if DeepSpeed's example program for the CPU does not run with the wheel.
    def test_cpu_example(self):
        text = (SOURCE / "tests/python/seeds/cpu.txt").read_text().replace("deepspeed", "anyaccel")
        self.assertIn("Device: cpu\n", run(self.python, "-c", text, env={"ANYACCEL_CCL": "off"}).stdout)

    # Fails if the wheel's simulator does not find its library or the Python package.
    def test_sim_run(self):
        if cached("ANYACCEL_SIM") != "ON":
            self.skipTest("this build has no simulator")
        code = "import torch; print(torch.ones(2, device='sim').sum().item())"
        self.assertEqual(run(self.python, "-m", "anyaccel", "sim", "run", "--", self.python, "-c", code).stdout, "2.0\n")

    # Fails if installing the wheel does not register the pytest plugin, if the plugin does not find
    # the simulator, or if it does not check the tests.
    def test_pytest_plugin(self):
        if cached("ANYACCEL_SIM") != "ON" or not has("pytest"):
            self.skipTest("this build has no simulator, or pytest is not installed")
        file = self.folder / "test_plugin.py"
        file.write_text(DEVICE_TEST + RACE_TEST)
        done = run(self.python, "-m", "pytest", *PYTEST_OPTIONS, "--accelerator", "sim", "--accelerator-stands-in-for", "cuda", "--accelerator-check",
                   file, cwd=self.folder, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("1 failed, 1 passed", done.stdout)
        self.assertIn("FAILED test_plugin.py::test_race", done.stdout)

    # Fails if the error about missing torch does not say what to install.
    def test_missing_torch(self):
        empty = self.folder / "empty"
        run(sys.executable, "-m", "venv", "--without-pip", empty)
        done = run("cmake", "-S", SOURCE, "-B", self.folder / "none", "-G", "Ninja", "-DSKBUILD=2", f"-DPython_EXECUTABLE={empty}/bin/python3",
                   check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("pip install 'torch>=2.11,<2.14'", " ".join(done.stderr.split()))


class CiExamples(unittest.TestCase):
    """Runs the commands of the files in examples/ci in a shell, without downloads and without root."""

    def setUp(self):
        if cached("ANYACCEL_SIM") != "ON":
            self.skipTest("this build has no simulator")
        for module in ("pytest", "yaml"):
            if not has(module):
                self.skipTest(f"{module} is not installed")
        self.root = pathlib.Path(tempfile.mkdtemp(dir=folder))
        python, _ = environment_with_torch(self.root / "fresh")
        self.environment = {**make_shims(self.root / "bin", python, wheel, SOURCE), "GITHUB_OUTPUT": str(self.root / "output")}
        make_project(self.root / "project", DEVICE_TEST, SOURCE)

    def shell(self, script):
        return run("bash", "-e", "-o", "pipefail", "-c", script, cwd=self.root / "project", env=self.environment).stdout

    def load(self, name):
        import yaml
        return yaml.safe_load((SOURCE / "examples/ci" / name).read_text())

    # Fails if a step of the workflow fails, or if the test does not run on a simulated CUDA device.
    def test_github_actions(self):
        (job,) = self.load("github-actions.yml")["jobs"].values()
        output = [self.shell(step["run"]) for step in job["steps"] if "run" in step]
        self.assertIn("1 passed", output[-1])
        self.assertRegex((self.root / "output").read_text(), r"^commit=[0-9a-f]{40}\n$")
        self.assertEqual(json.loads((self.root / "project/problems.sarif").read_text())["version"], "2.1.0")
        self.assertTrue((self.root / "project/junit.xml").exists())

    # Fails if a command of the job fails, with or without the wheel in the cache.
    def test_gitlab(self):
        job = self.load("gitlab-ci.yml")["simulated-cuda"]
        script = "\n".join([*job["before_script"], *job["script"]])
        for _ in range(2):
            self.assertIn("1 passed", self.shell(script))
        self.assertTrue((self.root / "project" / job["artifacts"]["reports"]["junit"]).exists())

    # Fails if an instruction of the container file fails, or if its entry point does not run the
    # tests.
    def test_containerfile(self):
        text = (SOURCE / "examples/ci/Containerfile").read_text().replace("\\\n", " ")
        for path in ("/anyaccel", "/wheel", "/var/lib/apt/lists"):
            text = re.sub(rf"(?<=[\s]){path}", f"{self.root}/image{path}", text)
        (self.root / "image/var/lib/apt/lists").mkdir(parents=True)
        shutil.copytree(self.root / "project/anyaccel", self.root / "image/anyaccel")
        runs = re.findall(r"(?m)^RUN (.*)$", text)
        self.assertEqual(len(runs), 6)
        for command in runs:
            others = [word for word in command.split() if word.startswith("/") and not word.startswith(str(self.root))]
            self.assertEqual(others, [], "the test must not touch files outside its folder")
            self.shell(command)
        entry = json.loads(re.search(r"(?m)^ENTRYPOINT (.*)$", text).group(1))
        self.assertIn("1 passed", self.shell(" ".join([*entry, "tests"])))


if __name__ == "__main__":
    reason = missing()
    if reason:
        print(f"SKIP: {reason}")
        sys.exit(77)
    unittest.main()
