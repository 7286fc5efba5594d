"""Lists of names, written as text."""

from __future__ import annotations


def words(text: str) -> list[str]:
    """The words of `text`, so that a long table reads as a table."""
    return text.split()
