"""Text of the examined programs in messages: quoted, escaped and shortened.

The functions are those of the package anyaccel. They are loaded by path, because importing the
package anyaccel loads torch.
"""

import importlib.util
import pathlib

_FILE = pathlib.Path(__file__).parent.with_name("anyaccel") / "_untrusted_text.py"
_spec = importlib.util.spec_from_file_location("anyaccel_port._untrusted_text", _FILE)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

quoted_text = _module.quoted_text
printable_text = _module.printable_text


def one_line(text: str, limit: int = 120) -> str:
    """Return source text on one line, with runs of blanks joined, and at most `limit` characters."""
    text = printable_text(" ".join(text.split()))
    return text if len(text) <= limit else text[:limit - 3] + "..."
