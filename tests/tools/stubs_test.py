"""tools/stubs: what the header says reaches the stub and the docstrings, and what is missing or stale is said."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = "include/anyaccel/accelerator.h"
STUB = "bindings/python/anyaccel/accelerator/accelerator.pyi"


class Stubs(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        for file in (HEADER, STUB):
            (self.root / file).parent.mkdir(parents=True)
            shutil.copy(ROOT / file, self.root / file)

    def run_tool(self, *options):
        result = subprocess.run([sys.executable, "-B", ROOT / "tools/stubs", "--root", self.root, *options], capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr

    def change(self, pattern, replacement):
        path = self.root / HEADER
        text, count = re.subn(pattern, replacement, path.read_text(), count=1, flags=re.M)
        self.assertEqual(count, 1, pattern)
        path.write_text(text)

    # Breaks when --check passes on a stub that is not what the header says.
    def test_check_finds_a_stale_stub(self):
        self.assertEqual(self.run_tool("--check"), (0, ""))
        self.change(r"Waits until a device has finished", "Waits till a device has done")
        status, output = self.run_tool("--check")
        self.assertEqual(status, 1)
        self.assertIn("not up to date", output)

    # Breaks when a new method has no signature, type or description in the stub and in the table of docstrings.
    def test_new_method_is_there(self):
        self.change(r"^  std::int64_t get_rss\(\) const;\n",
                    "\\g<0>\n  /// Counts what is new here,\n  /// on one device.\n  /// torch.cuda: -. DeepSpeed: -.\n"
                    "  std::vector<std::string> news(bool old, std::optional<DeviceIndex> device_index = std::nullopt) const;\n")
        self.assertEqual(self.run_tool()[0], 0)
        stub = (self.root / STUB).read_text()
        self.assertIn('    def news(self, old: bool, device_index: int | None = None) -> list[str]:\n'
                      '        """Counts what is new here, on one device."""\n', stub)
        table = self.root / "docstrings.h"
        self.assertEqual(self.run_tool("--docstrings", table), (0, ""))
        self.assertIn('{"news",\n     R"doc(Counts what is new here, on one device.)doc"}', table.read_text())

    # Breaks when a C++ type without a Python counterpart gets into the stub, or is left out without a word.
    def test_unknown_type_is_an_error(self):
        self.change(r"^  std::int64_t get_rss\(\) const;", "  Strange get_rss() const;")
        status, output = self.run_tool()
        self.assertEqual(status, 1)
        self.assertRegex(output, HEADER + r":\d+: get_rss: no Python type for `Strange`; add it to TYPES or PYTHON")

    # Breaks when what Python says in another way outlives the method.
    def test_lost_method_is_an_error(self):
        self.change(r"^  bool register_host_memory\(.*\n", "")
        status, output = self.run_tool()
        self.assertEqual(status, 1)
        self.assertIn("register_host_memory in PYTHON is no method", output)


if __name__ == "__main__":
    unittest.main()
