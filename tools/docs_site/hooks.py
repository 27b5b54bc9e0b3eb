"""MkDocs hooks: expand folders in the navigation, rank tutorials and how-to guides first in search
results, link the paths in generated references, and check the titles in the search index.
"""
import html
import json
import os
import pathlib
import re


def expand(nav, folder):
    """Return the navigation with each "folder/" replaced by its pages, the index first."""
    out = []
    for entry in nav:
        if isinstance(entry, dict):
            (title, value), = entry.items()
            if isinstance(value, list):
                entry = {title: expand(value, folder)}
            elif value.endswith("/"):
                names = sorted(path.name for path in (folder / value).glob("*.md") if path.name != "index.md")
                entry = {title: [value + "index.md", *(value + name for name in names)]}
        out.append(entry)
    return out


# Search ranking factors by folder. The first folder that matches a page applies.
BOOSTS = {"tutorials/": 3, "how-to/": 3, "reference/cpp/": 0.5, "reference/python-api/": 0.5, "tree/": 0.3}


def boost(path):
    return next((factor for folder, factor in BOOSTS.items() if path.startswith(folder)), 1)


def on_page_markdown(markdown, page, **_):
    page.meta.setdefault("search", {"boost": boost(page.file.src_uri)})
    return markdown


def on_config(config):
    config.nav = expand(config.nav, pathlib.Path(config.docs_dir))
    return config


PATH = re.compile(r"\b(?:benchmarks|bindings|cmake|docs|examples|include|src|tests|tools)/[\w/.-]*\w")
UNCHANGED = {"a", "h1", "h2", "h3", "h4", "h5", "h6", "pre"}


def site_paths(path):
    """Return the paths in the site at which a path of the tree may have a page."""
    if path.startswith("docs/"):
        return [path.removeprefix("docs/")]
    if path.startswith("include/anyaccel/") and path.endswith(".h"):
        return ["reference/cpp/" + path.removeprefix("include/anyaccel/").replace("/", "-").removesuffix(".h") + ".md"]
    return ["tree/" + (path if path.endswith(".md") else path + ".md"), f"tree/{path}/README.md"]


def link_paths(content, link):
    """Replace the paths in a page's HTML with links, except in headings, links and blocks of code.
    `link(path)` returns (URL, title), or None if the site does not have the file. Titles replace
    the paths of documents.
    """
    def replace(match):
        found = link(match.group())
        if not found:
            return match.group()
        url, title = found
        return f'<a href="{url}">{title if match.group().startswith("docs/") else match.group()}</a>'

    out, inside = [], 0
    for part in re.split(r"(<[^>]*>)", content):
        tag = re.match(r"<(/?)(\w+)", part)
        if tag and tag.group(2) in UNCHANGED:
            inside += -1 if tag.group(1) else 1
        out.append(part if tag or inside else PATH.sub(replace, part))
    return "".join(out)


def title_of(markdown):
    """Return the first heading of a page, as HTML."""
    heading = re.search(r"(?m)^# (.+)$", markdown)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(heading.group(1))) if heading else ""


def on_page_content(content, page, files, **_):
    """Link the paths in the generated references, which come from comments in the sources."""
    here = page.file.src_uri
    if not here.startswith(("reference/cpp/", "reference/python-api/")) and here != "reference/errors.md":
        return content

    def link(path):
        found = next(filter(None, map(files.get_file_from_path, site_paths(path))), None)
        if not found or found.src_uri == here:
            return None
        return os.path.relpath(found.dest_uri, os.path.dirname(page.file.dest_uri)), title_of(found.content_string)

    return link_paths(content, link)


MAX_TITLE = 150


def long_titles(index):
    """Return an error for each long title in the search index. Its heading probably contains HTML.
    """
    return [f"{entry['location']}: the search index has a title of {len(entry['title'])} characters "
            f"(expected at most {MAX_TITLE}). Write HTML tags in headings as code."
            for entry in index["docs"] if len(entry["title"]) > MAX_TITLE]


def on_post_build(config, **_):
    errors = long_titles(json.loads((pathlib.Path(config.site_dir) / "search/search_index.json").read_text()))
    if errors:
        raise SystemExit("\n".join(errors))
