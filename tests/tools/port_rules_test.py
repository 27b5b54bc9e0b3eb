"""tools/port_rules: the page lists all rules, and incomplete rules and an outdated page are
reported.
"""
import re
import unittest

from tool_case import ToolCase

PAGE = "docs/reference/port-rules.md"
RULES = "bindings/python/anyaccel_port/rules/python.py"


class PortRules(ToolCase):
    TOOL = "tools/port_rules"
    COPIES = ("bindings/python/anyaccel_port", PAGE)

    # Fails if the page in the tree is outdated, or if a rule has no section.
    def test_the_page(self):
        status, output = self.run_tool("--check")
        self.assertEqual((status, output), (0, ""))
        sections = re.findall(r"^### (\S+)$", (self.root / PAGE).read_text(), re.M)
        self.assertGreater(len(sections), 100)
        self.assertEqual(len(sections), len(set(sections)))
        for rule in ("cuda-synchronize", "device-string", "nccl", "cpp-cuda-guard", "package-nvidia"):
            self.assertIn(rule, sections)

    # Fails if --check passes although a rule changed, or if it writes the page.
    def test_an_outdated_page(self):
        before = (self.root / PAGE).read_text()
        self.change(RULES, r"These settings affect only cuDNN\.", "Settings of NVIDIA's library.")
        status, output = self.run_tool("--check")
        self.assertEqual(status, 1)
        self.assertIn("+Finds torch.backends.cudnn. Settings of NVIDIA's library.", output)
        self.assertIn("run tools/port_rules", output)
        self.assertEqual((self.root / PAGE).read_text(), before)
        self.assertEqual(self.run_tool(), (0, ""))
        self.assertEqual(self.run_tool("--check"), (0, ""))

    # Fails if a rule without an explanation or an example is accepted.
    def test_an_incomplete_rule(self):
        self.change(RULES, r'"x\.record_stream\(s\)"', '""')
        self.change(RULES, r'"`\.to\(device\)` does the same for tensors and modules\."', '""')
        status, output = self.run_tool()
        self.assertEqual(status, 1)
        self.assertIn("record-stream: the example (before) is missing", output)
        self.assertIn("tensor-cuda: the explanation (why) is missing", output)


if __name__ == "__main__":
    unittest.main()
