"""tools/methods: all members of DeepSpeed's interface are covered, and missing or outdated entries
are reported.
"""
import re
import unittest

from tool_case import ToolCase

HEADER = "include/anyaccel/accelerator.h"


class Methods(ToolCase):
    TOOL = "tools/methods"
    COPIES = ("include", "src/core", "src/backends")

    def setUp(self):
        super().setUp()
        (self.root / "docs/reference").mkdir(parents=True)

    # Fails if the interface lacks one of DeepSpeed's members, or the page lacks a method of the
    # header.
    def test_all_members_of_deepspeed_are_covered(self):
        status, output = self.run_tool()
        self.assertEqual(status, 0, output)
        page = (self.root / "docs/reference/methods.md").read_text()
        self.assertIn("77 public members; all of them are listed here", " ".join(page.split()))
        count = int(re.search(r"has (\d+) public methods", page).group(1))
        rows = re.findall(r"^\| `(\w+)` \|", page, re.M)
        self.assertEqual(len(set(rows)), count)
        # Each method's comment in the class has a line with its counterpart in DeepSpeed, so the
        # number of these lines must equal the number of rows.
        header = (self.root / HEADER).read_text()
        public = header[header.index("class ANYACCEL_API Accelerator {"):header.index(" private:")]
        for name in ("BFloat16Tensor", "capture_to_graph", "device_properties", "set_visible_devices_envs"):
            self.assertIn(name, rows)
        self.assertEqual(len(re.findall(r"DeepSpeed: ", public)), len(rows))

    # Fails if a missing member is not reported.
    def test_missing_member_is_an_error(self):
        self.change(HEADER, r"DeepSpeed: range_push\.", "DeepSpeed: -.")
        status, output = self.run_tool()
        self.assertEqual(status, 1)
        self.assertIn("DeepSpeed's range_push has no counterpart", output)

    # Fails if a method is accepted whose comment does not name its counterparts in torch.cuda and
    # DeepSpeed.
    def test_method_without_equivalents_is_an_error(self):
        self.change(HEADER, r"^  /// torch\.cuda: synchronize\. DeepSpeed: synchronize\.\n", "")
        status, output = self.run_tool()
        self.assertEqual(status, 1)
        self.assertIn("missing line `torch.cuda: X. DeepSpeed: Y.` in the comment of synchronize", output)

    # Fails if --check accepts a page that differs from the header.
    def test_check_finds_a_stale_page(self):
        self.run_tool()
        self.assertEqual(self.run_tool("--check")[0], 0)
        self.change(HEADER, r"Wait until a device has finished", "Wait till a device has done")
        status, output = self.run_tool("--check")
        self.assertEqual(status, 1)
        self.assertIn("not up to date", output)

    # Fails if the column of backends does not match the sources.
    def test_overriding_backend_is_listed(self):
        folder = self.root / "src/backends/newchip"
        folder.mkdir()
        (folder / "backend.h").write_text("class NewChip : public sdk::TorchBackend {\n"
                                          "  MemoryInfo memory_info(DeviceIndex index) const override;\n};\n")
        # Overrides of another interface's methods must not count, even if a method has the same
        # name.
        (folder / "hooks.h").write_text("Stream current_stream(DeviceIndex index) const override;\n")
        self.run_tool()
        rows = dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", (self.root / "docs/reference/methods.md").read_text(), re.M))
        self.assertIn("newchip", rows["available_memory"])
        self.assertNotIn("newchip", rows["current_stream"])


if __name__ == "__main__":
    unittest.main()
