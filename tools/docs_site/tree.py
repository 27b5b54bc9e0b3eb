"""Copies the tree's pages to the folder that MkDocs reads, and adapts their links.

Pages of docs/ keep their paths. Other linked files, such as a README or a source, become pages
below tree/, so that the site works without the source tree. A link to a public header leads to its
reference page.
"""
import os
import pathlib
import re

FENCE = re.compile(r"^(\s*)(```+|~~~+)")
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+\.svg)\)")
# Comments before a code block (see tools/check_examples) that readers should see.
FILE_COMMENT = re.compile(r"<!-- file: (\S+) -->\n+(\s*)$")
OUTPUT_COMMENT = re.compile(r"<!-- output(?:, numbers vary| varies)? -->\n+(\s*)$")
LANGUAGES = {".h": "cpp", ".cpp": "cpp", ".cu": "cpp", ".py": "python", ".pyi": "python", ".cmake": "cmake", ".toml": "toml"}


def split_code(text):
    """Yield (is_code, part) for the fenced code blocks of a page and the prose around them."""
    part, code = [], None
    for line in text.splitlines(keepends=True):
        match = FENCE.match(line)
        if code is None and match:
            yield False, "".join(part)
            part, code = [line], match.group(2)
        elif code is not None and match and match.group(2) == code and line.strip() == code:
            yield True, "".join(part + [line])
            part, code = [], None
        else:
            part.append(line)
    yield code is not None, "".join(part)


def separate_lists(prose):
    """Insert an empty line before a list after a paragraph, because Python-Markdown, unlike GitHub,
    requires one.
    """
    out = []
    for line in prose.split("\n"):
        item = re.match(r"([-*]|\d+\.) ", line)
        if item and out and out[-1].strip() and not re.match(r"([-*]|\d+\.) |\s|[|<]", out[-1]):
            out.append("")
        out.append(line)
    return "\n".join(out)


def title_after(prose):
    """Return the title of a code block that follows this prose: the name of a file, or "Output"."""
    file = FILE_COMMENT.search(prose)
    return file.group(1) if file else "Output" if OUTPUT_COMMENT.search(prose) else ""


def with_title(code, title):
    """Return a fenced code block with a title, unless it already has options."""
    if not title or not re.match(r"\s*`{3,}\w+\n", code):
        return code
    return code.replace("\n", f' title="{title}"\n', 1)


def tags_in_headings(prose):
    """Return the headings that contain an HTML tag outside of code. Such a tag hides the rest of
    the page from the search index.
    """
    return [line for line in re.findall(r"(?m)^#+ .*$", prose) if re.search(r"<[a-zA-Z/]", re.sub(r"`[^`]*`", "", line))]


class Tree:
    """The site's pages by path. `root` is the source tree."""

    def __init__(self, root):
        self.root = root
        self.pages = {}
        self.errors = []
        self.known = {}  # {path in the tree: path in the site}
        self.files = {}  # {path in the site: path in the tree} of files that are copied
        self.waiting = []

    def add(self, source, target):
        """Add a Markdown page from the tree."""
        self.known[source] = target
        self.waiting.append(source)

    def run(self):
        """Convert all pages, and the pages that they link to."""
        while self.waiting:
            source = self.waiting.pop()
            self.pages[self.known[source]] = self.convert(source, self.known[source])

    def convert(self, source, target):
        text = (self.root / source).read_text()
        if not source.endswith(".md"):
            return self.listing(source, text)
        out, title = [], ""
        for is_code, part in split_code(text):
            if is_code:
                part = with_title(part, title)
            else:
                self.errors += [f"{source}: the heading `{line}` contains an HTML tag; write it as code"
                                for line in tags_in_headings(part)]
                title = title_after(part)
                part = PICTURE.sub(lambda m: self.picture(source, m.group(2)), part)
                part = LINK.sub(lambda m: m.group(1) + self.link(source, target, m.group(2)) + m.group(3), part)
                part = separate_lists(part)
            out.append(part)
        return "".join(out)

    @staticmethod
    def listing(source, text):
        """Return a page that shows a source file."""
        language = LANGUAGES.get(pathlib.PurePath(source).suffix, "text")
        fence = "`" * (3 + max((len(run) for run in re.findall("`{3,}", text)), default=0))
        return f"# {source}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"

    def picture(self, source, link):
        """Return an SVG picture to embed in the page, so that its text has the page's text color.
        """
        path = self.root / os.path.normpath(os.path.join(os.path.dirname(source), link))
        if not path.is_file():
            self.errors.append(f"{source}: missing picture {link}")
            return ""
        return f'<div class="diagram">{path.read_text().strip()}</div>'

    def link(self, source, target, link):
        if re.match(r"[a-z]+:|#", link):
            return link
        path, _, anchor = link.partition("#")
        place = os.path.normpath(os.path.join(os.path.dirname(source), path))
        if (self.root / place).is_dir():
            place = os.path.join(place, "README.md")
        there = self.site_path(place)
        if there is None:
            self.errors.append(f"{source}: broken link {link}")
            return link
        result = os.path.relpath(there, os.path.dirname(target) or ".")
        return result + ("#" + anchor if anchor else "")

    def site_path(self, place):
        if place in self.known:
            return self.known[place]
        if place.startswith("../") or not (self.root / place).is_file():
            return None
        if place.endswith(".png"):
            there = self.known[place] = place.removeprefix("docs/")
            self.files[there] = place
            return there
        there = "tree/" + (place if place.endswith(".md") else place + ".md")
        self.add(place, there)
        return there
