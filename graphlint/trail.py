"""What an analysis looked at, so that a later change elsewhere is known not to matter.

Glossary:
    opened   files whose content was read for what it says.
    query    a search over the text of all project files, and the files that matched. A file that changed without
             changing any answer, and was not opened, cannot change what the analysis says.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Query:
    """`kind` is "mentions" (one word) or "captures" (what the user's configuration adds)."""

    kind: str
    words: tuple[str, ...]
    matched: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trail:
    opened: tuple[str, ...] = ()
    queries: tuple[Query, ...] = ()
