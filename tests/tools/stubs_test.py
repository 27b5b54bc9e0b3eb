"""tools/stubs: the header's contents appear in the stub and the docstrings, and missing or outdated
entries are reported.
"""
import unittest

from tool_case import ToolCase

HEADER = "include/anyaccel/accelerator.h"
STUB = "bindings/python/anyaccel/accelerator/accelerator.pyi"


class Stubs(ToolCase):
    TOOL = "tools/stubs"
    COPIES = (HEADER, STUB)

    # Fails if --check accepts a stub that differs from the header.
    def test_check_finds_a_stale_stub(self):
        self.assertEqual(self.run_tool("--check"), (0, ""))
        self.change(HEADER, r"Wait until a device has finished", "Wait till a device has done")
        status, output = self.run_tool("--check")
        self.assertEqual(status, 1)
        self.assertIn("not up to date", output)

    # Fails if a new method lacks its signature, type or description in the stub or the table of
    # docstrings.
    def test_new_method_is_added(self):
        self.change(HEADER, r"^  std::int64_t get_rss\(\) const;\n",
                    "\\g<0>\n  /// Counts what is new here,\n  /// on one device.\n  /// torch.cuda: -. DeepSpeed: -.\n"
                    "  std::vector<std::string> news(bool old, std::optional<DeviceIndex> device_index = std::nullopt) const;\n")
        self.assertEqual(self.run_tool()[0], 0)
        stub = (self.root / STUB).read_text()
        self.assertIn('    def news(self, old: bool, device_index: int | str | torch.device | None = None) -> list[str]:\n'
                      '        """Counts what is new here, on one device."""\n', stub)
        table = self.root / "docstrings.h"
        self.assertEqual(self.run_tool("--docstrings", table), (0, ""))
        self.assertIn('{"news",\n     R"doc(Counts what is new here, on one device.)doc"}', table.read_text())

    # Fails if a C++ type without a Python counterpart is written to the stub, or is skipped without
    # an error.
    def test_unknown_type_is_an_error(self):
        self.change(HEADER, r"^  std::int64_t get_rss\(\) const;", "  Strange get_rss() const;")
        status, output = self.run_tool()
        self.assertEqual(status, 1)
        self.assertRegex(output, HEADER + r":\d+: get_rss: no Python type for `Strange`; add it to TYPES or PYTHON")

    # Fails if a Python-specific entry for a method that the header lacks is accepted.
    def test_missing_method_is_an_error(self):
        self.change(HEADER, r"^  bool register_host_memory\(.*\n", "")
        status, output = self.run_tool()
        self.assertEqual(status, 1)
        self.assertIn("register_host_memory in PYTHON is not a method", output)


if __name__ == "__main__":
    unittest.main()
