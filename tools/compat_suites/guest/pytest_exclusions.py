"""pytest plugin that deselects a suite's excluded tests and records them.

The environment variable COMPAT_EXCLUSIONS names a JSON file with `excluded`, a list of names, and
`report`, the file to write: a list of [test, name that excludes it].
"""
import json
import os
import pathlib


def exclusion_of(node, excluded):
    """Return the name in `excluded` that matches a test's node ID, or None. Names are
    FILE::CLASS::TEST, FILE::TEST or FILE::CLASS::*; a TEST matches with any parameters.
    """
    parts = node.split("[")[0].split("::")
    file = parts[0].removeprefix("tests/")
    for name in ("::".join([file, *parts[1:]]), "::".join([file, *parts[1:-1], "*"]), f"{file}::*"):
        if name in excluded:
            return name
    return None


def pytest_collection_modifyitems(config, items):
    options = json.loads(pathlib.Path(os.environ["COMPAT_EXCLUSIONS"]).read_text())
    kept, left_out = [], []
    for item in items:
        name = exclusion_of(item.nodeid, set(options["excluded"]))
        (kept if name is None else left_out).append((item, name))
    pathlib.Path(options["report"]).write_text(json.dumps([[item.nodeid, name] for item, name in left_out]))
    if left_out:
        config.hook.pytest_deselected(items=[item for item, _ in left_out])
        items[:] = [item for item, _ in kept]
