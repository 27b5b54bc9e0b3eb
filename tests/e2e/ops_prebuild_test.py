"""Tests that `anyaccel_build_ops` lists an op's source files for the build, so that only a change
to one of them rebuilds the op.
"""
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = pathlib.Path(os.environ["ANYACCEL_BUILD_DIR"]) / "bin/anyaccel_build_ops"
SOURCE = pathlib.Path(os.environ["ANYACCEL_SOURCE_DIR"])


class Prebuild(unittest.TestCase):
    # Fails if the depfile lacks a source file of the op or lists another file. Also fails if a
    # space or dollar sign in a path is not escaped.
    def test_depfile_lists_source_files(self):
        with tempfile.TemporaryDirectory(prefix="a $b ") as name:
            folder = pathlib.Path(name).resolve()
            op = folder / "tiny.op"
            op.write_text("anyaccel_op = 1\nclass_name = TinyBuilder\nname = tiny\nbackends = *\ntorch = no\nsource = tiny.cpp\n")
            (folder / "tiny.cpp").write_text('#include "kernels/simd/isa.h"\n#include "tiny.h"\nint tiny() { return TINY; }\n')
            (folder / "tiny.h").write_text("#define TINY 1\n")
            (folder / "other.h").write_text("// nobody's\n")
            subprocess.run([PROGRAM, "--out", folder / "out", "--machine", "--depfile", folder / "d", "some target", op], check=True, timeout=300)
            text = (folder / "d").read_text().replace("\\\n", "").replace("\\ ", "\0").replace("$$", "$")
            target, files = text.split(":", 1)
            self.assertEqual(target.replace("\0", " "), "some target")
            self.assertEqual({word.replace("\0", " ") for word in files.split()},
                             {str(folder / "tiny.cpp"), str(folder / "tiny.h"), str(SOURCE / "src/kernels/simd/isa.h")})


if __name__ == "__main__":
    unittest.main()
