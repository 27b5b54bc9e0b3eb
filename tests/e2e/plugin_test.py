"""Tests of examples/out_of_tree_backend: built outside the tree against the installed package, and
loaded into the installed program.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from installed import BUILD, ENVIRONMENT, SOURCE, build, cached, configure, install, run

NAME = "hostcard"
# Operands that share a storage: a copy within a tensor, and a convolution with flat parameters.
SHARED_STORAGE = """#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/conv2d.h>
#include <anyaccel/anyaccel.h>

static at::Tensor result(at::Device device) {
  const auto x = at::arange(40, at::TensorOptions(device).dtype(at::kFloat));
  x.slice(0, 35).copy_(x.slice(0, 0, 5));
  x.copy_(x);
  return at::conv2d(x.slice(0, 10, 40).view({1, 1, 5, 6}), x.slice(0, 0, 9).view({1, 1, 3, 3}), x.slice(0, 9, 10)).cpu();
}

int main() {
  const auto device = anyaccel::get_accelerator().torch_device();
  return at::allclose(result(device), result(at::kCPU)) ? 0 : 1;
}
"""


class Plugin(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder, cls.prefix = install(cls)
        cls.project = shutil.copytree(SOURCE / "examples/out_of_tree_backend", cls.folder / "project")
        cls.built = cls.folder / "built"
        configure(cls.project, cls.built, cls.prefix)
        build(cls.built, cls.prefix)
        cls.plugins = cls.built / "plugins"

    def anyaccel(self, *words, check=True, path=None, **variables):
        variables = {"ANYACCEL_PLUGIN_PATH": str(path or self.plugins), **variables}
        return run(self.prefix / "bin/anyaccel", *words, check=check, env={**ENVIRONMENT, **variables})

    def report(self, check=True, **variables):
        # If standard error is included, warnings come before the JSON object.
        text = self.anyaccel("report", "--json", check=check, **variables).stdout
        return text[:text.index("{")], json.loads(text[text.index("{"):])

    def losses(self, text):
        return json.loads([line[line.index("{"):] for line in text.splitlines() if '"losses"' in line][-1])

    # Fails if the example's own tests fail when it is built outside the tree. Also fails if
    # training gives different losses than on the CPU, whose kernels the example uses.
    def test_1_own_tests(self):
        said = run("ctest", "--test-dir", self.built, "-V", env={**ENVIRONMENT, "OMP_NUM_THREADS": "1", "ANYACCEL_OP_CACHE": str(self.folder / "op cache")}).stdout
        self.assertIn("100% tests passed, 0 tests failed", said)
        self.assertEqual([p.name for p in (self.folder / "op cache").glob("*/*.so")], ["libanyaccel_op_axpy.so"])
        ours = self.losses(said)
        self.assertEqual(ours["accelerator"], NAME)
        words = re.search(r'Test command: .*?anyaccel ("train".*)', said).group(1)
        words = [word.replace("/model", "/model-cpu") for word in re.findall(r'"([^"]*)"', words)]
        cpu = self.losses(self.anyaccel(*words, DS_ACCELERATOR="cpu", OMP_NUM_THREADS="1").stdout)
        # On the CPU, attention is a single kernel. Elsewhere it is composed of other ops, so the
        # last bits differ.
        self.assertEqual(len(ours["losses"]), 3)
        for mine, its in zip(ours["losses"], cpu["losses"]):
            self.assertAlmostEqual(mine, its, delta=1e-5 * its)

    # Fails if `new-backend` does not generate the example that these tests build, or if a project
    # with another name contains the example's name.
    def test_2_new_backend(self):
        self.anyaccel("new-backend", NAME, self.folder / "same")
        run("diff", "-r", self.project, self.folder / "same")
        said = self.anyaccel("new-backend", "my_card", self.folder / "other").stdout
        self.assertIn(str(self.prefix), said)
        texts = {p.relative_to(self.folder / "other"): p.read_text() for p in (self.folder / "other").rglob("*") if p.is_file()}
        self.assertEqual(len(texts), len([p for p in self.project.rglob("*") if p.is_file()]))
        for path, text in texts.items():
            self.assertNotIn("hostcard", f"{path}\n{text}".lower())
        self.assertIn("class MyCardBackend final", texts[pathlib.Path("backend.h")])
        self.assertIn("device_type = my_card\n", texts[pathlib.Path("my_card.traits")])
        configure(self.folder / "other", self.folder / "other/build", self.prefix)

    # Fails if the report omits the plugin or describes it wrongly.
    def test_3_report(self):
        said, data = self.report(DS_ACCELERATOR=NAME)
        self.assertEqual((said, data["accelerator"]), ("", NAME))
        (plugin,) = data["plugins"]
        self.assertEqual((plugin["name"], plugin["verdict"]), (NAME, "loaded"))
        self.assertEqual(plugin["path"], str(self.plugins / f"{NAME}.plugin"))
        self.assertEqual(plugin["library"], str(self.plugins / f"libanyaccel_{NAME}.so"))
        self.assertIn("AxpyBuilder", [b["class_name"] for b in data["op_builders"]])
        self.assertEqual(len(data["devices"]), 2)
        _, data = self.report(DS_ACCELERATOR="cpu")
        self.assertEqual(data["plugins"][0]["verdict"], "found")

    # Fails if a broken plugin stops a program that does not use it. Also fails if a program that
    # selects it continues.
    def test_4_broken(self):
        broken = self.folder / "broken"
        broken.mkdir(mode=0o755)
        text = (self.plugins / f"{NAME}.plugin").read_text()
        shutil.copy(self.plugins / f"libanyaccel_{NAME}.so", broken)
        (broken / f"{NAME}.plugin").write_text(re.sub(r"libtorch = .*", "libtorch = 2.99.0", text))
        os.chmod(broken / f"{NAME}.plugin", 0o644)
        said, data = self.report(path=broken, DS_ACCELERATOR="")
        self.assertIn("LibTorch 2.99.0", said)
        self.assertEqual(data["plugins"][0]["verdict"], "refused")
        self.assertIn("LibTorch 2.99.0, this AnyAccel with LibTorch 2.1", data["plugins"][0]["reason"])
        self.assertNotEqual(data["accelerator"], NAME)
        done = self.anyaccel("report", check=False, path=broken, DS_ACCELERATOR=NAME)
        self.assertEqual(done.returncode, 1)
        self.assertIn("LibTorch 2.99.0", done.stdout)
        os.chmod(broken, 0o777)
        done = self.anyaccel("report", check=False, path=broken, DS_ACCELERATOR=NAME)
        self.assertIn("is writable by everyone", " ".join(done.stdout.split()))

    # Fails if torch's Python code does not work with the example: checkpointing, seeds, current
    # device or autocast.
    def test_5_python(self):
        if not cached("ANYACCEL_PYTHON_EXECUTABLE") or not list(BUILD.glob("python/anyaccel/_conformance*")):
            self.skipTest("this build has no Python package")
        done = run(cached("ANYACCEL_PYTHON_EXECUTABLE"), "-m", "anyaccel.conformance", "--suite", "device_module", "--json", "-",
                   env={**ENVIRONMENT, "PYTHONPATH": str(BUILD / "python"), "ANYACCEL_PLUGIN_PATH": str(self.plugins), "DS_ACCELERATOR": NAME},
                   stderr=subprocess.PIPE)
        cases = json.loads(done.stdout)["cases"]
        self.assertGreater(len(cases), 15)
        self.assertEqual([case for case in cases if case["outcome"] != "passed"], [])

    # Fails if a plugin installed into AnyAccel's prefix is not found without ANYACCEL_PLUGIN_PATH,
    # or if its RUNPATH contains paths of the build machine.
    def test_6_installed_into_prefix(self):
        run("cmake", "--install", self.built, "--prefix", self.prefix, env=ENVIRONMENT)
        (library,) = self.prefix.rglob(f"libanyaccel_{NAME}.so")
        said = run("readelf", "-d", library, env={**ENVIRONMENT, "LC_ALL": "C"}).stdout
        self.assertEqual(re.findall(r"R(?:UN)?PATH.*\[(.*)\]", said), ["$ORIGIN/../.."])
        done = run(self.prefix / "bin/anyaccel", "report", env={**ENVIRONMENT, "DS_ACCELERATOR": NAME})
        self.assertIn("lib", done.stdout)
        self.assertRegex(done.stdout, rf"(?m)^accelerator +{NAME}$")
        self.assertIn("yes", re.search(r"AxpyBuilder.*", done.stdout).group(0))

    # Fails if the example maps a storage to the host twice at the same time, which runtimes such as
    # OpenCL do not allow. Here, mapping a storage twice throws.
    def test_7_storages_are_mapped_once(self):
        project = shutil.copytree(self.project, self.folder / "mapped")
        source = project / "device/fallback.cpp"
        text = source.read_text()
        for old, new in (
                ("#include <utility>\n", "#include <set>\n#include <utility>\n"),
                ("  // Resizable, because some kernels resize their outputs.\n",
                 "  static std::set<const void*> mapped;\n"
                 "  TORCH_CHECK(!storage.nbytes() || mapped.insert(storage.data()).second, \"mapped twice\");\n"),
                ("c10::DataPtr(const_cast<void*>(storage.data()), c10::Device(c10::kCPU)),",
                 "c10::DataPtr(const_cast<void*>(storage.data()), const_cast<void*>(storage.data()), "
                 "[](void* memory) { mapped.erase(memory); }, c10::Device(c10::kCPU)),")):
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        source.write_text(text)
        (project / "test/axpy_test.cpp").write_text(SHARED_STORAGE)
        configure(project, project / "build", self.prefix)
        build(project / "build", self.prefix)
        said = run("ctest", "--test-dir", project / "build", "-V", "-R", "^axpy$", check=False, env=ENVIRONMENT).stdout
        self.assertIn("100% tests passed, 0 tests failed out of 1", said)


if __name__ == "__main__":
    unittest.main()
