"""Composes edits from a rule's template and pieces of the source."""

from __future__ import annotations

import re

from ..findings import Edit

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def edits(text: str, span: tuple[int, int], template: str, values: dict[str, str],
          pieces: dict[str, tuple[int, int]]) -> tuple[Edit, ...]:
    """The edits that turn the source at `span` into the template.

    `values` are texts for placeholders, and `pieces` are spans of the source for them. If the pieces
    keep their order, only the source between them is edited, so that other edits can change them.
    """
    parts: list[str | tuple[int, int]] = []
    last = 0
    for match in _PLACEHOLDER.finditer(template):
        parts.append(template[last:match.start()])
        name = match.group(1)
        parts.append(values[name] if name in values else pieces[name])
        last = match.end()
    parts.append(template[last:])
    merged: list[str | tuple[int, int]] = [""]
    for part in parts:
        if isinstance(part, str) and isinstance(merged[-1], str):
            merged[-1] += part
        elif isinstance(part, str):
            merged.append(part)
        else:
            merged += [part, ""]
    spans = [part for part in merged if not isinstance(part, str)]
    ends = [span[0], *(end for _, end in spans)]
    starts = [*(start for start, _ in spans), span[1]]
    if any(start < end for start, end in zip(starts, ends)):
        whole = "".join(part if isinstance(part, str) else text[part[0]:part[1]] for part in merged)
        return (Edit(span[0], span[1], whole), )
    literals = merged[::2]
    return tuple(Edit(end, start, literal) for end, start, literal in zip(ends, starts, literals) if literal != text[end:start])


def apply(text: str, changes: list[Edit]) -> str:
    """Applies edits. Of two edits that overlap, the outer one wins; insertions at the same place keep their order."""
    out, last = [], 0
    for edit in sorted(dict.fromkeys(changes), key=lambda e: (e.start, e.end > e.start, -e.end)):
        if edit.start >= last:
            out += [text[last:edit.start], edit.text]
            last = edit.end
    return "".join([*out, text[last:]])
