"""tools/docs_site: the site's pages made from pages of the tree, generated references, and search."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from docs_site import cpp_reference, generated, hooks  # noqa: E402
from docs_site.tree import Tree, separate_lists, split_code  # noqa: E402


class Pages(unittest.TestCase):

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)

    def convert(self, files):
        for name, text in files.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        tree = Tree(self.root)
        tree.known["include/anyaccel/a.h"] = "reference/cpp/a.md"
        tree.add("docs/how-to/a.md", "how-to/a.md")
        tree.run()
        return tree

    # Fails if a link to another file of the tree does not work on the site.
    def test_links(self):
        tree = self.convert({
            "docs/how-to/a.md": "[x](../../src/x/README.md#part) [d](../../src/x) [h](../../include/anyaccel/a.h) [m](../../m.cpp) [w](https://x.org)\n",
            "src/x/README.md": "# X\n[back](../../docs/how-to/a.md)\n", "include/anyaccel/a.h": "", "m.cpp": "int m;\n"})
        self.assertEqual(tree.errors, [])
        self.assertEqual(tree.pages["how-to/a.md"], "[x](../tree/src/x/README.md#part) [d](../tree/src/x/README.md) [h](../reference/cpp/a.md) "
                                                    "[m](../tree/m.cpp.md) [w](https://x.org)\n")
        self.assertEqual(tree.pages["tree/src/x/README.md"], "# X\n[back](../../../how-to/a.md)\n")
        self.assertEqual(tree.pages["tree/m.cpp.md"], "# m.cpp\n\n```cpp\nint m;\n```\n")

    # Fails if a dead link, or one to a file outside the tree, is not an error.
    def test_dead_links(self):
        tree = self.convert({"docs/how-to/a.md": "[x](gone.md) [y](../../../passwd)\n\n![p](gone.svg)\n"})
        self.assertEqual(len(tree.errors), 3)

    # Fails if code is changed as if it were prose.
    def test_code_is_unchanged(self):
        text = "a\n```md\n[x](gone.md)\nb\n- c\n```\n"
        self.assertEqual(self.convert({"docs/how-to/a.md": text}).pages["how-to/a.md"], text)
        self.assertEqual([code for code, _ in split_code(text)], [False, True, False])

    # Fails if a block's title does not show the name of the file in the block, or that the block is
    # output.
    def test_titles(self):
        text = "a\n\n<!-- file: a.py -->\n```python\nx\n```\n\n<!-- output, numbers vary -->\n```text\n1\n```\n\nb\n\n```sh\nls\n```\n"
        page = self.convert({"docs/how-to/a.md": text}).pages["how-to/a.md"]
        self.assertIn('```python title="a.py"\nx\n', page)
        self.assertIn('```text title="Output"\n1\n', page)
        self.assertIn("```sh\nls\n", page)

    # Fails if a list after a paragraph is rendered as part of the paragraph.
    def test_lists(self):
        self.assertEqual(separate_lists("a\n- b\n- c\n  d\n- e\n"), "a\n\n- b\n- c\n  d\n- e\n")

    # Fails if a picture is not embedded in the page.
    def test_pictures(self):
        tree = self.convert({"docs/how-to/a.md": "![p](b.svg)\n", "docs/how-to/b.svg": "<svg/>\n"})
        self.assertEqual(tree.pages["how-to/a.md"], '<div class="diagram"><svg/></div>\n')

    # Fails if a PNG picture becomes a text page, or is not copied to the site.
    def test_png_pictures(self):
        (self.root / "docs/images").mkdir(parents=True)
        (self.root / "docs/images/b.png").write_bytes(b"\x89PNG")
        tree = self.convert({"docs/how-to/a.md": "![p](../images/b.png)\n"})
        self.assertEqual(tree.pages["how-to/a.md"], "![p](../images/b.png)\n")
        self.assertEqual((tree.files, tree.errors), ({"images/b.png": "docs/images/b.png"}, []))

    # Fails if the navigation lacks a page of a folder.
    def test_navigation(self):
        (self.root / "cpp").mkdir()
        for name in ("index", "b", "a"):
            (self.root / f"cpp/{name}.md").write_text("")
        self.assertEqual(hooks.expand([{"R": ["x.md", {"C++": "cpp/"}]}], self.root), [{"R": ["x.md", {"C++": ["cpp/index.md", "cpp/a.md", "cpp/b.md"]}]}])

    # Fails if a command's actions, whose options the page must show, are not found, or if other
    # lists are treated as actions.
    def test_actions(self):
        text = "Usage: x\n\nOptions:\n  -h  Help\n\nSubcommands:\n  list    List ops\n  build   Build ops\n\nName  is not one\n"
        self.assertEqual(generated.actions_of(text), ["list", "build"])
        self.assertEqual(generated.actions_of("Positionals:\n  name  Name\n"), [])

    # Fails if generated pages are ranked before guides in search results.
    def test_search_order(self):
        self.assertGreater(hooks.boost("how-to/a.md"), hooks.boost("reference/cli.md"))
        self.assertGreater(hooks.boost("tutorials/a.md"), hooks.boost("reference/cli.md"))
        for path in ("reference/cpp/a.md", "reference/python-api/a.md", "tree/src/README.md"):
            self.assertLess(hooks.boost(path), hooks.boost("reference/cli.md"))


    # Fails if an HTML tag in a heading, which hides the rest of the page from the search, is not an
    # error.
    def test_tags_in_headings(self):
        page = "# `a<b>`\n\n## torch.<device type>\n\n```sh\n# <x>\n```\n\n## 1 < 2\n"
        self.assertEqual(self.convert({"docs/how-to/a.md": page}).errors, [
            "docs/how-to/a.md: the heading `## torch.<device type>` contains an HTML tag; write it as code"])

    # Fails if a heading that swallowed the text after it gets into the search index.
    def test_long_titles(self):
        entry = lambda title: {"location": "a.html", "title": title, "text": ""}
        self.assertEqual(len(hooks.long_titles({"docs": [entry("x" * 151), entry("x" * 150)]})), 1)

    # Fails if a path in a generated reference is not a link, or if a link is put into a heading, a
    # link or a block of code.
    def test_paths(self):
        link = {"docs/a.md": ("../a.html", "A"), "include/anyaccel/b.h": ("b.html", "B")}.get
        self.assertEqual(hooks.link_paths("<p>See docs/a.md and include/anyaccel/b.h, not docs/gone.md.</p>", link),
                         '<p>See <a href="../a.html">A</a> and <a href="b.html">include/anyaccel/b.h</a>, not docs/gone.md.</p>')
        for text in ("<h2>docs/a.md</h2>", '<a href="x">docs/a.md</a>', "<pre><code>docs/a.md</code></pre>",
                     '<p id="docs/a.md">x</p>'):
            self.assertEqual(hooks.link_paths(text, link), text)

    # Fails if a path of the tree leads to a page other than the one that the site has for it.
    def test_site_paths(self):
        self.assertEqual(hooks.site_paths("docs/reference/ops.md"), ["reference/ops.md"])
        self.assertEqual(hooks.site_paths("include/anyaccel/ops/call.h"), ["reference/cpp/ops-call.md"])
        self.assertEqual(hooks.site_paths("src/backends"), ["tree/src/backends.md", "tree/src/backends/README.md"])


class Search(unittest.TestCase):

    def queries(self, *typed):
        """Return the queries that reach the search engine."""
        script = (ROOT / "docs/javascripts/search-query.js").read_text()
        before = "const seen = []; globalThis.window = { Worker: class { postMessage(message) { seen.push(message.data); } } };"
        after = (f"for (const data of {json.dumps(typed)}) new window.Worker().postMessage({{ type: 2, data }});"
                 "console.log(JSON.stringify(seen));")
        command = ["node", "-e", "\n".join((before, script, after))]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    # Fails if the engine sees an operator in a pasted option or name, or if readers cannot search
    # for a quoted phrase.
    @unittest.skipUnless(shutil.which("node"), "runs the site's script in Node.js, which is not installed")
    def test_queries(self):
        self.assertEqual(self.queries("--hostfile", "generate --quantize int8", "ANYACCEL_STRICT=1", "a program's memory", "-"),
                         ["hostfile", "generate quantize int8", "ANYACCEL_STRICT", "program memory", ""])
        self.assertEqual(self.queries("[OpBuilder::load]", "version 0.1.0", '"device memory"', "x"),
                         ["+OpBuilder* +load*", "version 0.1.0", '"device memory"', "x"])


class References(unittest.TestCase):

    # Fails if the site's index of the reference lacks a link to a generated page.
    def test_reference_index(self):
        page = generated.reference_index((ROOT / "docs/reference/index.md").read_text())
        for target in ("commands.md", "errors.md", "cpp/index.md", "python-api/index.md"):
            self.assertIn(f"]({target})", page)
        with self.assertRaises(ValueError):
            generated.reference_index("# Reference\n")

    # Fails if the page lacks an error code.
    def test_error_codes(self):
        page = generated.error_codes(ROOT)
        for code in ("invalid_argument", "out_of_memory", "internal"):
            self.assertIn(f"| `{code}` | ", page)

    # Fails if an op's module has no page.
    def test_python_pages(self):
        self.assertIn("::: anyaccel.ops.cpu_adam\n", generated.python_pages(ROOT)["ops.md"])

    # Fails if Markdown in a comment is lost, or other text is interpreted as Markdown.
    def test_description(self):
        node = ElementTree.fromstring("<x><para>Use <computeroutput>a_b</computeroutput> for a_b*c.</para><para>More.</para></x>")
        self.assertEqual(cpp_reference.description(node), "Use `a_b` for a\\_b\\*c.\n\nMore.")


if __name__ == "__main__":
    unittest.main()
