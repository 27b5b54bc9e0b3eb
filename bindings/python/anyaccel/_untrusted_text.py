"""Makes untrusted text safe to print in messages, following the same rules as
src/base/untrusted_text.h.
"""
import re

# Unicode's default ignorable code points, line separators, and invisible format characters.
_INVISIBLE = ("\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
              "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
              "\U000e0000-\U000e0fff\ud800-\udfff")
_IN_QUOTES = re.compile(f'["\\\\{_INVISIBLE}]')
_PRINTED = re.compile(f"(?![\\n\\t])[{_INVISIBLE}]")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def _as_bytes(text) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return str(text).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # surrogates that do not represent bytes
        return str(text).encode("utf-8", "surrogatepass")


def _numbered(match) -> str:
    code = ord(match[0])
    if 0xdc80 <= code <= 0xdcff:  # surrogateescape's stand-in for an invalid byte
        code -= 0xdc00
        return f"\\x{code:02x}"
    return f"\\U{code:08x}" if code > 0xffff else f"\\u{code:04x}" if code >= 0x80 else f"\\x{code:02x}"


def _named(match) -> str:
    return _NAMED.get(match[0]) or _numbered(match)


def quoted_text(text, limit: int = 200) -> str:
    """Return `text` (str, bytes, or anything with a str()) in double quotes, escaped, and
    truncated to `limit` printed characters."""
    whole = _as_bytes(text)
    # A character has at most four bytes, so a character that is cut off at the end of this part
    # lies beyond the limit.
    part = whole[:4 * (limit + 1)].decode("utf-8", "surrogateescape")
    out, printed = [], 0
    for c in part:
        shown = _IN_QUOTES.sub(_named, c)
        printed += len(shown)
        if printed > limit:
            return f'"{"".join(out)}..." ({len(whole)} bytes)'
        out.append(shown)
    return f'"{"".join(out)}"'


def printable_text(text, limit: int = 8000) -> str:
    """Return `text` with invisible characters escaped, except newlines and tabs.

    If it exceeds `limit` bytes, its middle is omitted.
    """

    def escaped(part: bytes) -> str:
        return _PRINTED.sub(_numbered, part.decode("utf-8", "surrogateescape"))

    whole = _as_bytes(text)
    if len(whole) <= limit:
        return escaped(whole)

    def continues(at):
        return whole[at] & 0xc0 == 0x80

    head, tail = limit - limit // 4, len(whole) - limit // 4
    for _ in range(3):
        head -= head > 0 and continues(head)
        tail += tail < len(whole) and continues(tail)
    return f"{escaped(whole[:head])} ... ({tail - head} bytes left out) ... {escaped(whole[tail:])}"
