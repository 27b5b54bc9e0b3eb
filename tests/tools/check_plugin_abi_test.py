"""tools/check_plugin_abi on this tree's descriptor, and on modified copies that each break
compatibility in one way.
"""
import subprocess
import unittest

from tool_case import ROOT, ToolCase

HEADER = "include/anyaccel/sdk/plugin_abi.h"
RECORD = "docs/plugin_abi.txt"


class CheckPluginAbi(ToolCase):
    TOOL = "tools/check_plugin_abi"
    COPIES = (HEADER, RECORD)

    def edit(self, name, *changes):
        path = self.root / name
        text = path.read_text()
        for old, new in changes:
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        path.write_text(text)

    def refused(self, *words):
        status, output = self.run_tool()
        self.assertEqual(status, 1, output)
        for word in words:
            self.assertIn(word, output)

    # Fails if this tree's header does not match the record, or is not valid C99.
    def test_this_tree(self):
        status, output = self.run_tool(root=ROOT)
        self.assertEqual(status, 0, output)

    # Fails if a moved field is accepted.
    def test_moved_field(self):
        self.edit(HEADER, ("  uint32_t abi_version;\n", ""), ("  uint32_t struct_size;\n", "  uint32_t abi_version;\n  uint32_t struct_size;\n"))
        self.refused("field struct_size of ABI 1 moved", "field abi_version of ABI 1 moved")

    # Fails if a field that became smaller is accepted.
    def test_smaller_field(self):
        self.edit(HEADER, ("  uint32_t flags;", "  uint16_t flags;"))
        self.refused("field flags of ABI 1 moved or changed")

    # Fails if a removed field is accepted, even if a different field replaces it.
    def test_removed_field(self):
        self.edit(HEADER, ("  const char* compiler_abi;", "  const char* compiler_kind;"))
        self.refused("field compiler_abi was removed")

    # Fails if a struct that became smaller is accepted.
    def test_smaller_struct(self):
        self.edit(HEADER, ("reserved[8]", "reserved[7]"))
        self.refused("the struct shrank from 120 to 112 bytes")

    # Fails if a new field without a line in the record is accepted.
    def test_unrecorded_field(self):
        self.edit(HEADER, ("const void* reserved[8];", "const char* added;\n  const void* reserved[7];"))
        self.refused("8 bytes after offset 56 have no line")

    # Fails if an allowed extension is rejected.
    def test_allowed_extension(self):
        self.edit(HEADER, ("const void* reserved[8];", "const char* added;\n  const void* reserved[7];"),
                  ("ABI_VERSION 1\n", "ABI_VERSION 2\n"))
        self.edit(RECORD, ("reserved  56  64", "2 added 56 8\nreserved 64 56"))
        status, output = self.run_tool()
        self.assertEqual(status, 0, output)

    # Fails if a header that is not valid C is accepted.
    def test_invalid_c(self):
        self.edit(HEADER, ("#include <stdint.h>\n", "#include <stdint.h>\nusing size = unsigned;\n"))
        self.refused("does not compile as C99")

    # Fails if a changed record of a released version is accepted.
    def test_released_record(self):
        git = ["git", "-C", str(self.root), "-c", "user.name=a", "-c", "user.email=a@b"]
        for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"], ["tag", "v0.1.0"]):
            subprocess.run(git + command, check=True, capture_output=True)
        self.edit(HEADER, ("  uint32_t flags;", "  uint32_t flags_;"))
        self.edit(RECORD, ("1      flags  ", "1      flags_ "))
        self.refused("field flags of release v0.1.0 changed in the record: got no line, expected (1, 44, 4)")


if __name__ == "__main__":
    unittest.main()
