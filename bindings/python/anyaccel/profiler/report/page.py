"""Packs the data, the style and the scripts into one HTML file."""
from array import array
import base64
import gzip
import hashlib
import json
import pathlib
from typing import Any, Dict, List
import sys

_HERE = pathlib.Path(__file__).parent
_SCRIPTS = ("data.js", "draw.js", "timeline.js", "panels.js", "main.js")


def pack(data: Dict[str, Any], columns: Dict[str, "array[int]"], strings: List[str]) -> str:
    """Return the data as a base64-encoded gzip file: the length of a JSON header in 4 bytes, the
    header, and the columns, each aligned to 8 bytes.
    """
    parts, places, at = [], {}, 0
    for name, column in columns.items():
        kind = {"q": "f64", "I": "u32", "B": "u8", "i": "i32"}[column.typecode]
        # Times in JavaScript are doubles. They are exact up to 2^53 ns, which is 104 days.
        values = array("d", column) if kind == "f64" else array(column.typecode, column)
        if sys.byteorder == "big":
            values.byteswap()
        blob = values.tobytes()
        blob += bytes(-len(blob) % 8)
        places[name] = [kind, at, len(column)]
        parts.append(blob)
        at += len(blob)
    header = json.dumps({**data, "columns": places, "strings": strings}, separators=(",", ":")).encode()
    header += b" " * (-(len(header) + 4) % 8)
    whole = len(header).to_bytes(4, "little") + header + b"".join(parts)
    return base64.b64encode(gzip.compress(whole, 6, mtime=0)).decode()


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def page(packed: str) -> str:
    """Return the page. Its content security policy allows only the page's own script and style, and
    blocks network access.
    """
    style = (_HERE / "page.css").read_text("utf-8")
    script = '"use strict";\n' + "\n".join((_HERE / name).read_text("utf-8") for name in _SCRIPTS)
    policy = (f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
              "base-uri 'none'; form-action 'none'")
    text = (_HERE / "page.html").read_text("utf-8")
    for key, value in (("POLICY", policy), ("STYLE", style), ("DATA", packed), ("SCRIPT", script)):
        text = text.replace(f"@{key}@", value, 1)
    return text
