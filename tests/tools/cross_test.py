"""tools/cross: processors, apt's private state, counts and options. Nothing is downloaded, compiled
or emulated.
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True

from cross_parts import counts, emulator, parts, processors, sysroot  # noqa: E402


class Processors(unittest.TestCase):
    # Fails if a run on a processor with more or fewer instruction sets than requested passes for
    # the requested one.
    def test_the_emulated_processor_is_checked(self):
        neon, sve = processors.find("neon"), processors.find("sve256")
        plain = processors.parse_report("hwcap=0x8fb hwcap2=0 sve_bits=0 page=4096")
        full = processors.parse_report("hwcap=0xecfffffb hwcap2=0x77fff sve_bits=256 page=4096")
        self.assertEqual(processors.problem(neon, plain), "")
        self.assertEqual(processors.problem(sve, full), "")
        self.assertIn("got asimd asimddp bf16 i8mm sve, expected asimd", processors.problem(neon, full))
        self.assertIn("expected asimd asimddp bf16 i8mm sve", processors.problem(sve, plain))
        self.assertIn("got SVE vectors of 512 bits, expected 256", processors.problem(sve, {**full, "sve_bits": 512}))

    def test_flags(self):
        self.assertEqual(processors.flags(0b11, 1 << 13), ["fp", "asimd", "i8mm"])
        self.assertEqual(processors.HWCAP.index("sve"), 22)
        self.assertEqual(processors.HWCAP2.index("bf16"), 14)

    # Fails if programs that parse /proc/cpuinfo or MIDR_EL1 see another processor.
    def test_files(self):
        text = processors.cpuinfo(processors.find("a64fx"), ["fp", "sve"], 2)
        self.assertEqual(text.count("CPU implementer\t: 0x46\n"), 2)
        self.assertIn("processor\t: 1\n", text)
        self.assertIn("Features\t: fp sve\n", text)
        self.assertIn("CPU part\t: 0x001\n", text)
        self.assertEqual(processors.midr(processors.find("dotprod")), 0x410fd0c1)

    def test_names_are_unique(self):
        names = [each.name for each in processors.PROCESSORS]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn(processors.DEFAULT, names)


class Packages(unittest.TestCase):
    # Fails if apt would read or change this machine's own state.
    def test_apt_state_is_private(self):
        text = sysroot.apt_configuration("/x")
        self.assertIn('APT::Architectures { "arm64"; };', text)
        for key in ("Dir::State", "Dir::State::status", "Dir::Cache", "Dir::Log"):
            self.assertRegex(text, rf'{key} "/x/')

    def test_supplied_packages(self):
        text = sysroot.dpkg_status(["libc6"])
        self.assertTrue(text.startswith("Package: libc6\nStatus: install ok installed\nArchitecture: arm64\n"))
        self.assertTrue(text.endswith("\n\n"))

    # Fails if a library that the CPU needs is left out, or the CUDA libraries are unpacked.
    def test_files_of_the_wheel(self):
        for name in ("torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "torch/include/ATen/ATen.h", "nvidia/cu13/lib/libcudart.so.13"):
            self.assertIsNone(sysroot.UNUSED.search(name), name)
        for name in ("torch/lib/libtorch_cuda.so", "torch/lib/libtorch_cuda_linalg.so", "torch/nn/__init__.py", "functorch/_C.so"):
            self.assertIsNotNone(sysroot.UNUSED.search(name), name)

    def test_torch_version_is_that_of_setup(self):
        self.assertRegex(sysroot.torch_version(), r"^\d+\.\d+\.\d+$")

    # Fails if the configure step would not accept the folder in LibTorch's place, or if it
    # contained anything that a target could use by mistake.
    def test_version_only(self):
        with tempfile.TemporaryDirectory() as folder:
            made = parts.version_only(pathlib.Path(folder))
            self.assertTrue((made / "include/ATen").is_dir())
            self.assertEqual([path.name for path in made.rglob("*") if path.is_file()], ["version.h"])


class Registration(unittest.TestCase):
    # Fails if the kernel would also run other machines' programs with the interpreter, or not run
    # shared libraries that are programs.
    def test_magic(self):
        line = emulator.registration("/x y")
        _, name, kind, offset, magic, mask, interpreter, option = line.split(":")
        self.assertEqual((kind, offset, interpreter, option), ("M", "", "/x y", "P"))
        magic, mask = (part.encode().decode("unicode_escape").encode("latin-1") for part in (magic, mask))
        self.assertEqual(len(magic), len(mask))

        def header(kind, machine):
            return b"\x7fELF\x02\x01\x01" + bytes(9) + kind.to_bytes(2, "little") + machine.to_bytes(2, "little")

        def matches(text):
            return bytes(a & b for a, b in zip(text, mask)) == bytes(a & b for a, b in zip(magic, mask))

        self.assertTrue(matches(header(2, 183)) and matches(header(3, 183)))
        self.assertFalse(matches(header(2, 62)) or matches(header(1, 183)) or matches(header(4, 183)))


class Exclusions(unittest.TestCase):
    # Fails if an exclusion also removes tests whose names only contain the pattern.
    def test_whole_names(self):
        exclusions = parts.read_exclusions("# comment\n\nEngine\\..*Uring.*\tQEMU has no io_uring\n")
        self.assertEqual(parts.excluded_tests(["Engine.Uring", "Engine.Plain", "MyEngine.Uring"], exclusions), {"Engine.Uring": "QEMU has no io_uring"})

    def test_file(self):
        exclusions = parts.read_exclusions((ROOT / "tests/cross/excluded.tsv").read_text())
        self.assertTrue(all(reason.strip() for _, reason in exclusions))


GTEST = """<?xml version="1.0"?><testsuites><testsuite name="A">
<testcase name="a" status="run" result="completed" classname="A"/>
<testcase name="b" status="run" result="completed" classname="A"><failure message="no"/><failure message="again"/></testcase>
<testcase name="c" status="run" result="skipped" classname="A"><skipped message="/x/a_test.cpp:3&#x0A;needs i8mm"/></testcase>
<testcase name="d" status="notrun" result="suppressed" classname="A"/></testsuite></testsuites>"""


class Counts(unittest.TestCase):
    # Fails if a failed or skipped test counts as passed.
    def test_googletest(self):
        seen = counts.of_googletest(GTEST)
        self.assertEqual(str(seen), "1 passed, 1 failed, 2 skipped")
        self.assertEqual(seen.reasons, ["needs i8mm", "disabled"])

    def test_round_trip(self):
        seen = counts.Counts(3, 1, 2, ["needs i8mm", "needs i8mm"])
        text = "\n".join(counts.summary(seen)) + "\n"
        self.assertEqual(text, "3 passed, 1 failed, 2 skipped\n2\tneeds i8mm\n")
        again = counts.of_run_tests(text)
        self.assertEqual((str(again), again.reasons), (str(seen), seen.reasons))

    def test_conformance(self):
        good = "cpu    conforms: required 3 passed, 0 failed, 1 skipped; optional 2 passed, 0 failed, 0 skipped (5 s)\n"
        self.assertEqual(str(counts.of_conformance(good)), "5 passed, 0 failed, 1 skipped")
        self.assertEqual(counts.of_conformance("cpu    cannot be tested: exit code 1\n").failed, 1)
        self.assertEqual(counts.of_conformance("").failed, 1)

    def test_unittest(self):
        self.assertEqual(str(counts.of_unittest("Ran 4 tests in 2s\n\nOK\n", 0)), "4 passed, 0 failed, 0 skipped")
        self.assertEqual(str(counts.of_unittest("Ran 4 tests in 2s\n\nFAILED (failures=1, errors=1, skipped=1)\n", 1)), "1 passed, 2 failed, 1 skipped")
        self.assertEqual(counts.of_unittest("SKIP: No module named 'transformers'\n", 77).reasons, ["No module named 'transformers'"])
        self.assertEqual(counts.of_unittest("Traceback", 1).failed, 1)


class Options(unittest.TestCase):
    def run_tool(self, *options):
        done = subprocess.run([sys.executable, "-B", ROOT / "tools/cross", *options], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    # Fails if a misspelled part is ignored, so that nothing runs.
    def test_unknown_names(self):
        for options, message in ((("aarch64", "--only", "kernel"), "unknown part: got 'kernel', expected any of: kernels, base"),
                                 (("aarch64", "--cpu", "neon,sve64"), "unknown processor: got 'sve64'"),
                                 (("aarch64", "--jobs", "0"), "--jobs is out of range: got 0"), (("riscv64",), "invalid choice")):
            status, output = self.run_tool(*options)
            self.assertEqual(status, 2, output)
            self.assertIn(message, output)

    def test_help_lists_parts_and_processors(self):
        status, output = self.run_tool("--help")
        self.assertEqual(status, 0)
        for name in [*parts.PARTS, *(each.name for each in processors.PROCESSORS)]:
            self.assertRegex(output, rf"(?m)^  {name} ")


if __name__ == "__main__":
    unittest.main()
