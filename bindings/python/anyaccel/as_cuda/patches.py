"""Replaces attributes of torch, and restores them."""

from __future__ import annotations

import typing

_MISSING = object()


class Patches:
    """The attributes that as_cuda has replaced, in order."""

    def __init__(self) -> None:
        self._replaced: list[tuple[object, str, object]] = []
        self._undo: list[typing.Callable[[], object]] = []

    def set(self, owner: object, name: str, value: object) -> None:
        """Replace `owner.name` until restore(), which deletes the attribute if the owner had inherited it."""
        self._replaced.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def on_restore(self, function: typing.Callable[[], object]) -> None:
        """Call `function` in restore()."""
        self._undo.append(function)

    def restore(self) -> None:
        """Restore everything in reverse order."""
        for owner, name, value in reversed(self._replaced):
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        for function in reversed(self._undo):
            function()
        self._replaced.clear()
        self._undo.clear()
