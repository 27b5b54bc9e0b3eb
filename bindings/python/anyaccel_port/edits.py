"""Applies edits to a text. If edits overlap, the outer one wins."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

from .findings import Edit, Finding


class _Accepted:
    """Edits that do not overlap."""

    def __init__(self):
        self.edits: list[Edit] = []
        self.replaced: list[tuple[int, int]] = []  # sorted spans of the edits that remove text

    def fits(self, edit: Edit) -> bool:
        """Whether the edit does not overlap an accepted edit. Insertions at the ends of a replaced span fit."""
        at = bisect.bisect_left(self.replaced, (edit.start, edit.start))
        if at and self.replaced[at - 1][1] > edit.start:
            return False
        if at == len(self.replaced):
            return True
        start, _ = self.replaced[at]
        return start >= edit.end

    def add(self, edit: Edit):
        self.edits.append(edit)
        if edit.end > edit.start:
            bisect.insort(self.replaced, (edit.start, edit.end))


def choose(groups: Iterable[Sequence[Edit]]) -> tuple[list[Edit], list[int]]:
    """Return the edits that can be applied together, and the indexes of the groups they come from.

    The edits of a group are applied together or not at all. Of two groups that overlap, the one
    with the largest edit wins. Equal edits are applied once.
    """
    numbered = [(number, tuple(group)) for number, group in enumerate(groups) if group]
    numbered.sort(key=lambda item: (-max(e.end - e.start for e in item[1]), item[0]))
    accepted, seen, kept = _Accepted(), set(), []
    for number, group in numbered:
        new = [edit for edit in dict.fromkeys(group) if edit not in seen]
        if not all(accepted.fits(edit) for edit in new):
            continue
        for edit in new:
            accepted.add(edit)
            seen.add(edit)
        kept.append(number)
    return accepted.edits, sorted(kept)


def apply(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits that do not overlap. Insertions at one place keep their order."""
    parts, at = [], 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < at:
            raise ValueError(f"overlapping edits at offset {edit.start}")
        parts += (text[at:edit.start], edit.text)
        at = edit.end
    return "".join(parts) + text[at:]


def apply_findings(text: str, findings: Sequence[Finding], more: Iterable[Edit] = ()) -> tuple[str, list[Finding]]:
    """Apply the edits of findings and the edits in `more`. Return the text and the findings whose edits
    were applied."""
    more = tuple(more)
    edits, kept = choose([more, *(finding.edits for finding in findings)])
    return apply(text, edits), [findings[number - 1] for number in kept if number]
