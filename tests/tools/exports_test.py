"""tools/exports on this build's libraries, and on a small library that the tests compile."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/exports"
SOURCE = """
#include <string>
#include "anyaccel/export.h"
namespace anyaccel {
ANYACCEL_API void seen(const std::string& text);
void seen(const std::string&) {}
void hidden() {}
class ANYACCEL_API Thing { public: virtual ~Thing() = default; virtual void run(); int inlined() { return 1; } };
void Thing::run() {}
}
extern "C" ANYACCEL_API void anyaccel_entry() {}
extern "C" ANYACCEL_API void of_another() {}
"""


def run(*options):
    """Return the tool's exit status and output."""
    done = subprocess.run([sys.executable, "-B", TOOL, *map(str, options)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


class Exports(unittest.TestCase):
    # Fails if a library exports a function that is not listed, or does not export a listed one.
    def test_this_build(self):
        status, output = run("--build", os.environ.get("ANYACCEL_BUILD_DIR", ROOT / "build/release"))
        if status == 77:
            self.skipTest(output.strip())
        self.assertEqual(status, 0, output)


@unittest.skipUnless(shutil.which("g++") and shutil.which("nm"), "g++ or nm is not installed")
class SmallLibrary(unittest.TestCase):
    def setUp(self):
        self.build = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.build)
        backends = ";".join(path.parent.name for path in ROOT.glob("src/backends/*/CMakeLists.txt"))
        (self.build / "CMakeCache.txt").write_text(f"ANYACCEL_BACKENDS:STRING={backends}\nANYACCEL_SIM:BOOL=ON\n")
        (self.build / "lib").mkdir()
        self.list = self.build / "lists/libanyaccel_small.txt"
        self.compile("-O2")

    def compile(self, *options, source=SOURCE):
        (self.build / "small.cpp").write_text(source)
        subprocess.run(["g++", "-std=c++20", "-shared", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", "-I", ROOT / "include",
                        "-o", self.build / "lib/libanyaccel_small.so", self.build / "small.cpp", *options], check=True)

    def run_tool(self, *options):
        return run("--build", self.build, "--lists", self.build / "lists", *options)

    def names(self):
        return [line for line in self.list.read_text().splitlines() if not line.startswith("#")]

    # Fails if the list contains hidden or inline functions, vtables, or names outside the project.
    def test_update(self):
        status, output = self.run_tool("--update")
        self.assertEqual(status, 0, output)
        self.assertEqual(self.names(), ["anyaccel::Thing::run()", "anyaccel::seen(std::string const&)", "anyaccel_entry"])

    # Fails if an optimized and a debug build have different lists.
    def test_optimization(self):
        self.run_tool("--update")
        self.compile("-O0")
        self.assertEqual(self.run_tool()[0], 0)

    # Fails if a change of the exported names is not printed, or is not an error.
    def test_differences(self):
        self.run_tool("--update")
        self.compile(source=SOURCE.replace("seen(", "shown("))
        status, output = self.run_tool()
        self.assertEqual(status, 1, output)
        self.assertIn("libanyaccel_small: + anyaccel::shown(std::string const&)\nlibanyaccel_small: - anyaccel::seen(std::string const&)", output)

    # Fails if a new library without a list is accepted.
    def test_library_without_list(self):
        status, output = self.run_tool()
        self.assertEqual(status, 1, output)
        self.assertIn("libanyaccel_small: + anyaccel_entry", output)

    # Fails if builds with sanitizers or without a backend are not skipped. Their exported names
    # differ.
    def test_skips(self):
        cache = self.build / "CMakeCache.txt"
        whole = cache.read_text()
        for text in (whole + "ANYACCEL_SANITIZE:STRING=address\n", whole.replace("ANYACCEL_SIM:BOOL=ON", "ANYACCEL_SIM:BOOL=OFF").replace("sim", "")):
            cache.write_text(text)
            status, output = self.run_tool()
            self.assertEqual(status, 77, output)
            self.assertTrue(output.startswith("SKIP: "), output)


if __name__ == "__main__":
    unittest.main()
