"""Who an object is, for as long as it lives.

An address (`id`) is handed on: what is made after an object has died often lies where that one lay, and who kept the
address takes the one for the other, in some runs and not in others. Here each object has a number that no other gets.

Nothing is kept alive by it. Objects are referred to weakly; those that allow no weak reference (lists, dictionaries)
are held, and let go of as soon as nobody else holds them.
"""

from __future__ import annotations

import functools
import gc
import itertools
import sys
import weakref
from collections.abc import Callable
from typing import Any

#: Objects without weak references that are held at a time; more have no number to be known again by.
MAX_HELD = 4096
#: So many of them are looked at after each statement.
AT_ONCE = 256


class Identities:
    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._weak: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._held: dict[int, tuple[int, list[Any]]] = {}
        """Of objects that are held: the number, and a box with the object."""
        self._waiting: list[int] = []
        """Of these, whose turn to be looked at is still to come."""
        self._loose: dict[int, int] = {}
        """Numbers of what is not held while garbage is collected: a cycle must not live by it."""

    def number(self, value: Any) -> int:
        """The object's own number, from now on."""
        number = self.known(value)
        if number:
            return number
        key, number = id(value), next(self._numbers)
        try:
            self._weak[key] = weakref.ref(value, functools.partial(_forget, self._weak, key, number)), number
        except TypeError:
            if len(self._held) < MAX_HELD:
                self._held[key] = number, [value]
        return number

    def known(self, value: Any) -> int:
        """The number of an object that was given one, 0 for others."""
        weak = self._weak.get(id(value))
        if weak is not None and weak[0]() is value:
            return weak[1]
        held = self._held.get(id(value))
        return held[0] if held is not None else 0  # what is held lies there still

    def reference(self, value: Any) -> Callable[[], Any]:
        """Gives the object as long as the program has it, then None."""
        try:
            return weakref.ref(value)
        except TypeError:
            pass
        key, number = id(value), self.number(value)

        def get() -> Any:
            known = self._held.get(key)
            return known[1][0] if known is not None and known[0] == number else None

        return get

    def prune(self) -> None:
        """Lets go of what nobody else holds."""
        if not self._held:
            return
        if not self._waiting:
            self._waiting = list(self._held)
        turn, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
        for key in turn:
            known = self._held.get(key)
            if known is not None and sys.getrefcount(known[1][0]) <= 2:
                del self._held[key]

    def collecting(self, phase: str, info: dict[str, Any]) -> None:
        """Objects that hold each other die together when garbage is collected; held from here, they would not."""
        if info.get("generation", 2) < 2:
            return
        if phase == "start":
            for key in [k for k, (_, box) in self._held.items() if gc.is_tracked(box[0])]:
                self._loose[key] = self._held.pop(key)[0]
        elif self._loose:
            loose, self._loose = self._loose, {}
            for one in gc.get_objects():
                number = loose.get(id(one))
                if number is not None:
                    self._held.setdefault(id(one), (number, [one]))


def _forget(table: dict[int, tuple[weakref.ref[Any], int]], key: int, number: int, _: object) -> None:
    if key in table and table[key][1] == number:
        del table[key]
