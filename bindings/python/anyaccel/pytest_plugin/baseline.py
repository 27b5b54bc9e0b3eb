"""Known problems of a test suite, which do not fail tests.

The file is JSON: {"version": 1, "problems": [{"test", "kind", "op", "file", "function"}, ...]}. It
contains no line numbers, so unrelated changes do not invalidate it.
"""

import json

import pytest
from anyaccel_port import write as files

_KEYS = ("test", "kind", "op", "file", "function")


def key(problem):
    return tuple(problem[name] for name in _KEYS)


def read(path):
    """Return the known problems as a set of keys. Raises pytest.UsageError for a malformed file."""
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
        if content["version"] != 1:
            raise ValueError(f"version {content['version']}, want 1")
        return {tuple(str(entry[name]) for name in _KEYS) for entry in content["problems"]}
    except OSError as error:
        raise pytest.UsageError(f"anyaccel: cannot read the baseline {path!r}: {error.strerror}; create it with "
                                "--accelerator-update-baseline") from error
    except (ValueError, KeyError, TypeError) as error:
        raise pytest.UsageError(f"anyaccel: {path!r} is not a baseline: {error!s:.200}; create it with --accelerator-update-baseline") from error


def write(path, keys):
    """Replace the file atomically."""
    content = {"version": 1, "problems": [dict(zip(_KEYS, entry)) for entry in sorted(keys)]}
    files.replace(path, json.dumps(content, indent=1) + "\n")
