"""Tests of the prebuilt ops of an installed AnyAccel, which need no compiler, and of the command
`anyaccel ops`.
"""
import hashlib
import json
import os
import shutil
import subprocess
import unittest

from installed import BUILD, ENVIRONMENT, cached, install, run


class Ops(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder, cls.prefix = install(cls)
        cls.environment = {**ENVIRONMENT, "ANYACCEL_OP_CACHE": str(cls.folder / "op cache")}
        # With this PATH and CXX, no program can be found, not even a compiler.
        cls.bare = {**cls.environment, "PATH": "/nowhere", "CXX": "/nowhere/c++"}

    def ops(self, *words, check=True, prefix=None, env=None):
        # On a slow machine, progress messages go to standard error, which must not be mixed with
        # JSON.
        apart = {"stderr": subprocess.PIPE} if "--json" in words and check else {}
        return run((prefix or self.prefix) / "bin/anyaccel", "ops", *words, check=check, env=env or self.environment, **apart)

    def listed(self, **options):
        """Return the host's ops by name. Ops for CUDA, which may have the same names, are omitted.
        """
        return {op["name"]: op for op in json.loads(self.ops("list", "--json", **options).stdout) if op["backends"] != ["cuda"]}

    # Fails if a prebuilt library is not used after installation, or if finding it needs a compiler.
    def test_1_prebuilt_without_compiler(self):
        built = {p.name for p in (BUILD / "lib/ops").glob("libanyaccel_op_*.so")}
        self.assertIn("libanyaccel_op_utils.so", built)
        ops = self.listed(env=self.bare)
        for name, op in ops.items():
            if f"libanyaccel_op_{name}.so" in built:
                self.assertEqual((op["state"], op["compatible"]), ("prebuilt", True), op)
                self.assertTrue(op["library"].startswith(os.path.realpath(self.prefix)), op)

    # Fails if prebuilt libraries are not found after the installation was moved.
    def test_2_moved_installation(self):
        moved = self.folder / "moved"
        self.prefix.rename(moved)
        try:
            op = self.listed(env=self.bare, prefix=moved)["utils"]
            self.assertEqual(op["state"], "prebuilt", op)
            self.assertIn("/moved/", op["library"])
            if cached("ANYACCEL_BUILD_PYTHON") == "ON":
                code = ("import torch, anyaccel; u = anyaccel.get_accelerator().create_op_builder('UtilsBuilder').load(); "
                        "print(u.cast_to_byte_tensor(torch.tensor([1.0])).tolist())")
                packages = next(moved.glob("lib*/**/site-packages"))
                said = run(os.environ["ANYACCEL_TEST_PYTHON"], "-c", code,
                           env={**self.bare, "PYTHONPATH": str(packages), "DS_ACCELERATOR": "cpu"})
                self.assertEqual(said.stdout, "[0, 0, 128, 63]\n")
        finally:
            moved.rename(self.prefix)
        self.assertFalse((self.folder / "op cache").exists() and list((self.folder / "op cache").glob("*/*.so")))

    # Fails if a library for a different instruction set is used, or if a dry run builds something.
    def test_3_build_for_another_machine(self):
        plan = self.ops("build", "UtilsBuilder", "--dry_run", "--target-arch=x86-64-v3").stdout
        self.assertRegex(plan, r"(?s)utils\n  key     [0-9a-f]{64}\n.* -march=x86-64-v3 .* -shared ")
        self.assertFalse(list((self.folder / "op cache").glob("*/*.so")))
        if os.uname().machine == "x86_64":
            (one,) = json.loads(self.ops("build", "utils", "--target-arch", "x86-64-v3", "--json").stdout)
            self.assertEqual(one["state"], "built")
            (one,) = json.loads(self.ops("build", "utils", "--target-arch", "x86-64-v3", "--json").stdout)
            self.assertEqual(one["state"], "cached")
            self.assertEqual(json.loads(self.ops("clean", "--json").stdout)["removed"], 1)

    # Fails if `ops build --dry-run --json` does not print a JSON plan.
    def test_5_plan_as_json(self):
        (plan,) = json.loads(self.ops("build", "utils", "--dry-run", "--json").stdout)
        self.assertEqual((plan["name"], len(plan["key"])), ("utils", 64))
        self.assertIn(" -shared ", plan["commands"][-1])

    # Fails if sources for CUDA and for the host are confused when an op has both.
    def test_8_same_op_for_two_backends(self):
        (plan,) = json.loads(self.ops("build", "fused_adam", "--backend", "cpu", "--dry-run", "--json").stdout)
        self.assertIn("/libanyaccel_op_fused_adam.so", plan["commands"][-1])

    # Fails if one invalid description hides the other ops, or if it is skipped without a message.
    def test_6_invalid_description(self):
        folder = next(self.prefix.glob("share/anyaccel/ops")) / "bad"
        folder.mkdir()
        (folder / "bad.op").write_text("anyaccel_op = 1\nnonsense\n")
        try:
            said = self.ops("list").stdout
            self.assertIn("UtilsBuilder", said)
            self.assertIn("skipping an op", said)
            self.assertIn("bad.op", said)
        finally:
            shutil.rmtree(folder)

    # Fails if a prebuilt library that cannot be loaded is not rebuilt, or if the next process tries
    # it again.
    def test_7_library_that_cannot_be_opened(self):
        if cached("ANYACCEL_BUILD_PYTHON") != "ON":
            self.skipTest("this build has no Python package")
        library = next(self.prefix.glob("lib*/**/libanyaccel_op_utils.so"))
        manifest = library.with_name(library.name + ".manifest")
        whole, text = library.read_bytes(), manifest.read_text()
        # Simulate a library that was built for a newer C library: its checksum is correct, but it
        # cannot be loaded.
        library.write_bytes(b"no ELF")
        manifest.write_text(text.replace(hashlib.sha256(whole).hexdigest(), hashlib.sha256(b"no ELF").hexdigest()))
        try:
            code = "import anyaccel; anyaccel.get_accelerator().create_op_builder('UtilsBuilder').load(); print('loaded')"
            packages = next(self.prefix.glob("lib*/**/site-packages"))
            env = {**self.environment, "PYTHONPATH": str(packages), "DS_ACCELERATOR": "cpu"}
            first = run(os.environ["ANYACCEL_TEST_PYTHON"], "-c", code, env=env).stdout
            self.assertRegex(first, r"(?s)rebuilding utils: .* cannot be loaded: .*loaded\n$")
            self.assertEqual(run(os.environ["ANYACCEL_TEST_PYTHON"], "-c", code, env=env).stdout, "loaded\n")
            self.assertEqual(self.listed()["utils"]["state"], "cached")
        finally:
            library.write_bytes(whole)
            manifest.write_text(text)
            self.ops("clean")

    # Fails if an unknown name or an invalid argument is accepted.
    def test_4_invalid_arguments(self):
        for words, code, text in [(["build", "nosuch"], 1, '"nosuch"'), (["list", "--colour"], 2, "--colour"), ([], 2, "requires one of list, build"),
                                  (["biuld"], 2, 'unknown action "biuld"; did you mean \'build\'?'), (["info"], 2, "NAME"),
                                  (["clean", "--dry-run"], 2, 'unknown option "--dry-run"'),
                                  (["build", "fused_adam", "--backend", "nosuch"], 1, "no sources"),
                                  (["build", "utils", "--target-arch=native"], 1, "other than native")]:
            done = self.ops(*words, check=False)
            self.assertEqual(done.returncode, code, done.stdout)
            self.assertIn(text, done.stdout)


if __name__ == "__main__":
    unittest.main()
