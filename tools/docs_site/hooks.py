"""MkDocs hooks: expand folders in the navigation, and rank tutorials and how-to guides first in
search results.
"""
import pathlib


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
