"""tools/check_docs on small trees with one error each."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/check_docs"
GOOD = {
    "README.md": "# A\n\n<!-- from: examples/a/main.cpp -->\n```cpp\nint main() {}\n```\n[page](docs/reference/environment.md)\n",
    "examples/a/main.cpp": "int main() {}\n",
    "src/base/a.cpp": 'auto x = env("ANYACCEL_A");  // env("NOT_THIS")\n',
    "docs/reference/environment.md": "| variable | what |\n| --- | --- |\n| `ANYACCEL_A` | a |\n",
    "docs/reference/dependencies.md": "GoogleTest\n",
    "CMakeLists.txt": "find_package(GTest REQUIRED)\n",
}


class CheckDocs(unittest.TestCase):
    def run_tool(self, files):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        for name, text in {**GOOD, **files}.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        result = subprocess.run([sys.executable, TOOL, "--root", folder], capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr

    def refused(self, name, text, words):
        status, output = self.run_tool({name: text})
        self.assertEqual(status, 1, output)
        self.assertIn(words, output)

    # Fails if a correct tree is rejected.
    def test_good_tree(self):
        status, output = self.run_tool({})
        self.assertEqual(status, 0, output)

    # Fails if a link to a missing heading is accepted, or if a correct link is rejected when the
    # heading contains code or is the second of two equal headings.
    def test_headings(self):
        page = {"docs/a.md": "# A page\n\n## Use `x()` and y\n\n## Use `x()` and y\n\n```sh\n# not a heading\n```\n"}
        for anchor in ("a-page", "use-x-and-y", "use-x-and-y-1"):
            self.assertEqual(self.run_tool({**page, "docs/b.md": f"[a](a.md#{anchor})\n"})[0], 0, anchor)
        for anchor in ("other", "not-a-heading", "use-x-and-y-2"):
            status, output = self.run_tool({**page, "docs/b.md": f"[a](a.md#{anchor})\n"})
            self.assertEqual(status, 1)
            self.assertIn(f"docs/b.md: broken link: a.md#{anchor}: the page has no such heading", output)
        self.assertEqual(self.run_tool({"docs/b.md": "# B\n\n[here](#b)\n"})[0], 0)
        self.assertEqual(self.run_tool({"docs/b.md": "# B\n\n[here](#c)\n"})[0], 1)

    # Fails if a code block in the README is accepted although it differs from the file that is
    # built.
    def test_code_block_differs_from_its_file(self):
        self.refused("examples/a/main.cpp", "int main() { return 1; }\n", "differs from examples/a/main.cpp")
        self.refused("README.md", "<!-- from: examples/a/main.cpp -->\ntext\n", "are not followed by a code block")

    # Fails if a link to a missing file is accepted.
    def test_dead_link(self):
        self.refused("docs/more.md", "[x](gone.md)\n", "broken link: gone.md")

    # Fails if an environment variable that is read but not documented, or documented but not read,
    # is accepted.
    def test_environment(self):
        self.refused("src/base/b.cpp", 'auto y = env_flag("DS_NEW");\n', "reads DS_NEW")
        self.refused("src/base/b.cpp", 'auto y = std::getenv("PLAIN");\n', "reads PLAIN")
        self.refused("docs/reference/environment.md", GOOD["docs/reference/environment.md"] + "| `ANYACCEL_GONE` | b |\n", "no source reads ANYACCEL_GONE")

    # Fails if a new dependency is accepted without documentation.
    def test_dependencies(self):
        self.refused("src/base/CMakeLists.txt", "find_package(Boost)\n", "searches for Boost")


if __name__ == "__main__":
    unittest.main()
