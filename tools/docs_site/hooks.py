"""Hooks of MkDocs: a folder in the navigation of mkdocs.yml stands for its pages."""
import pathlib


def expand(nav, folder):
    """The same navigation with each "folder/" replaced by its pages, the index first."""
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


def on_config(config):
    config.nav = expand(config.nav, pathlib.Path(config.docs_dir))
    return config
