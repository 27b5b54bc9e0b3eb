"""Reads the events of one window, one at a time, so that a window of any size needs little memory,
and so that a truncated window still yields the events before its end.
"""
import gzip
import json
import pathlib
import re
from typing import Any, Dict, Iterator
import zlib

_CHUNK = 1 << 20
_MOST = 1 << 26  # maximum number of characters per event
_BASE = re.compile(r'"baseTimeNanoseconds"\s*:\s*(-?\d{1,20})')
_BEGIN = re.compile(r'"traceEvents"\s*:\s*\[')
_SPACE = re.compile(r"[\s,]*")


class Window:
    """Iterate over a window's events. `base_ns` is known after the first event. `error` says why
    the end of the file is missing; it is empty if the file is complete.
    """
    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.base_ns = 0
        self.error = ""

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        decode = json.JSONDecoder().raw_decode
        try:
            with (gzip.open(self.path) if self.path.suffix == ".gz" else open(self.path, "rb")) as file:
                text = ""
                while not (begin := _BEGIN.search(text)):
                    more = file.read(_CHUNK).decode("utf-8", "replace")
                    if not more or len(text) > _MOST:
                        self.error = 'no "traceEvents"'
                        return
                    text += more
                if base := _BASE.search(text, 0, begin.start()):
                    self.base_ns = int(base[1])
                at = begin.end()
                while True:
                    at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
                    if text[at:at + 1] == "]":
                        return
                    try:
                        event, end = decode(text, at)
                    except ValueError as error:
                        more = file.read(_CHUNK).decode("utf-8", "replace")
                        if not more or len(text) - at > _MOST:
                            self.error = f"truncated or corrupt: {error}"
                            return
                        text, at = text[at:] + more, 0
                        continue
                    at = end
                    if isinstance(event, dict):
                        yield event
        except (OSError, EOFError, zlib.error, RecursionError) as error:
            self.error = f"truncated or corrupt: {error}"
