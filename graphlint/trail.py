"""What a piece of analysis asked of the project, so that a later change is known to matter or not.

Glossary:
    opened    files whose content was read for what it says.
    listed    folders whose listing was asked for: where a name was looked for, found or not.
    query     a search over the text of all project files, and the files that matched.
    holds     the same questions would be answered the same now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Query:
    """`kind` is "mentions" (one word), "subclassing" (one class), "filling" (one table) or "captures" (what the
    configuration adds).

    limit: how many files were asked for, 0 for all; `matched` are the first of them, in order of their paths.
    """

    kind: str
    words: tuple[str, ...]
    limit: int
    matched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trail:
    opened: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    queries: tuple[Query, ...] = ()

    def holds(self, changed: Collection[str], folders: Collection[str], matches: Callable[[Query, str], bool]) -> bool:
        """Whether changes leave every answer as it was.

        changed: files that came, went or have a new content. folders: those whose listing is another.
        matches: whether a file that changed matches a query now.
        """
        if any(path in changed for path in self.opened) or any(path in folders for path in self.listed):
            return False
        return not any(answers_change(query, path, matches) for query in self.queries for path in changed)


def answers_change(query: Query, path: str, matches: Callable[[Query, str], bool]) -> bool:
    """Whether a change of the file `path` changes the answer to a query."""
    if path in query.matched:
        return not matches(query, path)
    if query.limit and len(query.matched) >= query.limit and path > query.matched[-1]:
        return False  # enough files come before it
    return matches(query, path)


@dataclass(slots=True)
class Notes:
    """A trail in the making. `done` are questions that were put and are noted already, with all that they rest on."""

    opened: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    queries: dict[tuple[str, tuple[str, ...], int], tuple[str, ...]] = field(default_factory=dict)
    done: set[object] = field(default_factory=set)

    def add(self, other: Notes) -> None:
        self.opened |= other.opened
        self.listed |= other.listed
        self.queries.update(other.queries)

    def trail(self) -> Trail:
        queries = [Query(*key, matched) for key, matched in sorted(self.queries.items())]
        return Trail(tuple(sorted(self.opened)), tuple(sorted(self.listed)), tuple(queries))


def merged(trails: Iterable[Trail]) -> Trail:
    """All files and folders of several trails; no queries, since a search reads every file of the project."""
    opened: set[str] = set()
    listed: set[str] = set()
    for trail in trails:
        opened.update(trail.opened)
        listed.update(trail.listed)
    return Trail(tuple(sorted(opened)), tuple(sorted(listed)))
