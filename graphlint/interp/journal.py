"""What branches change: undone before the next one runs, and joined after the last.

Glossary:
    journal  (dictionary, key, old value) of every write since the innermost open branch began.
    delta    what one branch changed: (id of the dictionary, key) -> (dictionary, key, new value).
"""

from __future__ import annotations

from typing import Any

from graphlint.value import Value, join

Entries = list[tuple[dict[Any, Value], Any, "Value | None"]]
Delta = dict[tuple[int, Any], tuple[dict[Any, Value], Any, "Value | None"]]


class Journal:
    """Variables, attributes and items that a branch may change are written through `store`."""

    def __init__(self) -> None:
        self.journal: Entries = []
        self.journalling = 0
        """How many branches are open."""

    def store(self, target: dict[Any, Value], key: Any, value: Value) -> None:
        """Writes through the journal."""
        if self.journalling:
            self.journal.append((target, key, target.get(key)))
        target[key] = value

    def remove(self, target: dict[Any, Value], key: Any) -> None:
        if key in target:
            if self.journalling:
                self.journal.append((target, key, target[key]))
            del target[key]

    def rollback(self, mark: int) -> Delta:
        """Undoes the journal down to `mark` and returns what it had changed: (dict id, key) -> (dict, key, new)."""
        delta: Delta = {}
        while len(self.journal) > mark:
            target, key, old = self.journal.pop()
            slot = (id(target), key)
            if slot not in delta:
                delta[slot] = (target, key, target.get(key))
            if old is None:
                target.pop(key, None)
            else:
                target[key] = old
        return delta

    def merge(self, deltas: list[Delta]) -> None:
        """Applies the join of several branches' effects to the present state (the state before them)."""
        if not deltas:
            return
        slots: dict[tuple[int, Any], tuple[dict[Any, Value], Any]] = {}
        for delta in deltas:
            for slot, (target, key, _) in delta.items():
                slots.setdefault(slot, (target, key))
        for slot, (target, key) in slots.items():
            before = target.get(key)
            values: list[Value] = []
            for delta in deltas:
                new = delta[slot][2] if slot in delta else before
                if new is not None:
                    values.append(new)
            if values:
                self.store(target, key, join(*values))
            else:
                self.remove(target, key)

    def merge_weakly(self, deltas: list[Delta]) -> None:
        """Effects of paths that returned earlier: what they wrote is possible beside what is there now."""
        for delta in deltas:
            for target, key, new in delta.values():
                if new is not None:
                    now = target.get(key)
                    self.store(target, key, new if now is None else join(now, new))
