"""tools/torch_versions on a small build, with folders that imitate torch installations."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = "#define TORCH_VERSION_MAJOR {}\n#define TORCH_VERSION_MINOR {}\n#define TORCH_VERSION_PATCH {}\n"
SOURCE = "#include <torch/thing.h>\nint main() { return thing(); }\n"


class TorchVersions(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.own = self.torch("2.13.0", "inline int thing() { return 0; }\n")
        (self.folder / "build/src").mkdir(parents=True)

    def torch(self, version, header):
        folder = self.folder / f"torch {version}"
        (folder / "include/torch/headeronly").mkdir(parents=True)
        (folder / "include/torch/headeronly/version.h").write_text(VERSION.format(*version.split(".")))
        (folder / "include/torch/thing.h").write_text(header)
        return folder

    def run_tool(self, sources, *torches):
        """Run the tool on a build that compiles each source with torch's headers."""
        entries = []
        for name, text in sources.items():
            source = self.folder / "build/src" / name
            source.write_text(text)
            entries.append({"directory": str(self.folder / "build"), "file": str(source),
                            "command": f"c++ -std=c++20 -isystem '{self.own}/include' -MD -MF x.d -o x.o -c '{source}'"})
        (self.folder / "build/compile_commands.json").write_text(json.dumps(entries))
        done = subprocess.run([sys.executable, "-B", ROOT / "tools/torch_versions", "--build", self.folder / "build", *torches],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    # Fails if a source that compiles with a different torch version is not counted, or if the build
    # folder is modified.
    def test_compatible_sources(self):
        status, output = self.run_tool({"a.cpp": SOURCE, "b.cpp": SOURCE}, self.torch("2.11.0", "int thing();\n"))
        self.assertEqual((status, output.splitlines()), (0, ["torch 2.11.0: 2 sources compile, 0 do not, 0 skipped", "2 passed, 0 failed, 0 skipped"]))
        self.assertEqual(sorted(path.name for path in (self.folder / "build").iterdir()), ["compile_commands.json", "src"])

    # Fails if an incompatible source is missed, for example because the headers of the build's own
    # torch are used, or if the compiler's message is missing.
    def test_incompatible_source(self):
        status, output = self.run_tool({"a.cpp": SOURCE}, self.torch("2.11.0", "int thing(int);\n"))
        self.assertEqual(status, 1, output)
        self.assertIn("src/a.cpp does not compile against torch 2.11.0", output)
        self.assertIn("too few arguments", output)
        self.assertEqual(output.splitlines()[-1], "0 passed, 1 failed, 0 skipped")

    # Fails if a source that this machine cannot compile with any version counts as a difference
    # between versions.
    def test_uncompilable_source_is_skipped(self):
        status, output = self.run_tool({"a.cpp": SOURCE, "b.cpp": "#include <no/such/vendor.h>\n"}, self.torch("2.11.0", "int thing();\n"))
        self.assertEqual(status, 0, output)
        self.assertIn("src/b.cpp: skipped", output)
        self.assertEqual(output.splitlines()[-1], "1 passed, 0 failed, 1 skipped")


if __name__ == "__main__":
    if shutil.which("c++") is None:
        print("SKIP: there is no compiler named c++")
        sys.exit(77)
    unittest.main()
