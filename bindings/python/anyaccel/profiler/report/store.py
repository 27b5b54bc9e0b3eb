"""Column storage for the events on the page, with tables of strings. Both have a size limit."""
from array import array
from typing import Any, Dict, List, Tuple

# Categories of events on the page.
OP, RANGE, KERNEL, COPY, COLLECTIVE, RUNTIME, IDLE, FINDING, SYNC = range(9)


class Strings:
    """Strings and their indices. Index 0 is "". Beyond `most` strings, new ones become ""."""
    def __init__(self, most: int = 500_000) -> None:
        self.texts: List[str] = [""]
        self._index: Dict[str, int] = {"": 0}
        self._most = most

    def index(self, text: str) -> int:
        found = self._index.get(text)
        if found is None:
            if len(self.texts) >= self._most:
                return 0
            found = self._index[text] = len(self.texts)
            self.texts.append(text)
        return found


class Store:
    """Events on the page. If there are more than `limit`, the shortest are dropped."""

    NAMES = ("begin", "duration", "key", "name", "track", "line", "shapes", "depth", "category")
    _TYPES = "qqqIIIIBB"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self.base = 1  # added to the external ids of a window, so that keys are unique
        self.strings = Strings()
        self.columns = [array(kind) for kind in self._TYPES]

    def __len__(self) -> int:
        return len(self.columns[0])

    def add(self, begin: int, duration: int, key: int, name: str, track: int, line: str, shapes: str, depth: int,
            category: int) -> None:
        index = self.strings.index
        for column, value in zip(self.columns,
                                 (begin, duration, key, index(name), track, index(line), index(shapes), min(depth, 255), category)):
            column.append(value)
        if len(self) > 2 * self.limit + 1000:
            self.shrink()

    def shrink(self) -> None:
        """Drop the shortest events until `limit` remain. Findings are kept."""
        excess = len(self) - self.limit
        if excess <= 0:
            return
        durations, categories = self.columns[1], self.columns[8]
        order = sorted(range(len(self)), key=lambda i: (categories[i] == FINDING, durations[i]))
        keep = sorted(order[excess:])
        self.columns = [array(column.typecode, [column[i] for i in keep]) for column in self.columns]
        self.dropped += excess

    def finish(self) -> Tuple[Dict[str, Any], List[str]]:
        """Return the columns, sorted by track, depth and begin, and the strings that they use.

        `link` replaces `key`: index of the op that launched the event, or -1.
        """
        self.shrink()
        begin, track, depth, key = self.columns[0], self.columns[4], self.columns[7], self.columns[2]
        order = sorted(range(len(self)), key=lambda i: (track[i], depth[i], begin[i]))
        columns = {name: array(column.typecode, [column[i] for i in order]) for name, column in zip(self.NAMES, self.columns)}
        launched = {-k for k in key if k < 0}
        at = {k: i for i, k in enumerate(columns["key"]) if k > 0 and k in launched}
        columns["link"] = array("i", [at.get(-k, -1) if k < 0 else -1 for k in columns.pop("key")])
        used: Dict[int, int] = {0: 0}
        for name in ("name", "line", "shapes"):
            columns[name] = array("I", [used.setdefault(i, len(used)) for i in columns[name]])
        return columns, [self.strings.texts[i] for i in used]
