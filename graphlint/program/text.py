"""All project files as one text, searched for words: one search instead of thousands, each with an early stop."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

#: Stands between two files: the first line of each begins after the end of another, as all others do.
_BETWEEN = b"\0\n"
#: What stands before a name where something is put into it or registered with it: nothing but a decorator's sign and
#: the objects that it belongs to, or the header of a block on the same line.
_BEGINS = re.compile(rb"(?:.*[:;])?[ \t]*@?[ \t]*(?:\w+[ \t]*\.[ \t]*)*")
#: What follows it then, up to the end of the line.
_FILLS = re.compile(rb"[ \t]*(?:[\[(.\\]|#|\r?\n|\0|\Z)")
#: An item that is stored: also after other targets of the same statement.
_STORED = re.compile(rb"[ \t]*\[[^\n]*\]\s*=(?!=)")


@dataclass(slots=True)
class Joined:
    """`text` holds the files one after the other, `starts` where each begins."""

    text: bytes
    starts: list[int]
    files: list[Path]

    @classmethod
    def of(cls, texts: Iterable[tuple[Path, bytes]]) -> Joined:
        parts: list[bytes] = []
        starts: list[int] = []
        files: list[Path] = []
        size = 0
        for file, data in texts:
            starts.append(size)
            files.append(file)
            parts += (data, _BETWEEN)
            size += len(data) + len(_BETWEEN)
        return cls(b"".join(parts), starts, files)

    def holding(
        self, token: str, limit: int | None = None, where: Callable[[bytes, int, int], bool] | None = None
    ) -> tuple[Path, ...]:
        """Files that hold `token` as a whole word; with `limit`, no more than so many of them.

        where: asked with the text and where the word begins and ends in it, whether it counts there.
        """
        if not token:
            return ()
        text, starts, found = self.text, self.starts, []
        word = token.encode("utf-8")
        at = text.find(word)
        while at >= 0:
            end = at + len(word)
            if not (_is_word(text, at - 1) or _is_word(text, end)) and (where is None or where(text, at, end)):
                index = bisect_right(starts, at) - 1
                found.append(self.files[index])
                if limit is not None and len(found) >= limit:
                    break
                # On to the next file: one hit in each is enough.
                end = self._end(index)
            at = text.find(word, end)
        return tuple(found)

    def containing(self, word: bytes) -> tuple[Path, ...]:
        """Files that hold `word`, as a part of another one, too."""
        return tuple(self.files[i] for i in self._hits(word))

    def marked(self, markers: Iterable[bytes], stem: bytes, stemmed: Iterable[bytes]) -> tuple[Path, ...]:
        """Files that hold one of `markers`, or `stem` and one of `stemmed`."""
        hits: set[int] = set()
        for marker in markers:
            hits.update(self._hits(marker))
        stemmed = tuple(stemmed)
        hits.update(i for i in self._hits(stem) if i not in hits and self._holds(i, stemmed))
        return tuple(self.files[i] for i in sorted(hits))

    def _end(self, index: int) -> int:
        """Where file number `index` ends."""
        return self.starts[index + 1] if index + 1 < len(self.starts) else len(self.text)

    def _hits(self, word: bytes) -> Iterator[int]:
        """The numbers of the files that hold `word`."""
        at = self.text.find(word)
        while at >= 0:
            index = bisect_right(self.starts, at) - 1
            yield index
            at = self.text.find(word, self._end(index))

    def _holds(self, index: int, words: Iterable[bytes]) -> bool:
        """True if file number `index` holds one of `words`."""
        begin, end = self.starts[index], self._end(index)
        return any(self.text.find(word, begin, end) >= 0 for word in words)


def is_base(text: bytes, at: int, end: int) -> bool:
    """True for a name among the bases of a `class` line."""
    bases = text[text.rfind(b"\n", 0, at) + 1 : at].lstrip()
    return bases.startswith(b"class ") and b"(" in bases


def is_filled(text: bytes, at: int, end: int) -> bool:
    """True for a name that a decorator, a call or a store begins with, outside of definitions."""
    line = text.rfind(b"\n", 0, at) + 1
    follows = _STORED if _BEGINS.fullmatch(text, line, at) is None else _FILLS
    return follows.match(text, end) is not None and not _in_definition(text, line)


def _in_definition(text: bytes, line: int) -> bool:
    """True if the line that begins at `line` stands inside a `def` or `class`, as far as indentation tells."""
    if text[line] not in b" \t":
        return False
    while line and text[line] in b" \t\r\n#)]}":
        line = text.rfind(b"\n", 0, line - 1) + 1
    return text.startswith((b"def ", b"class ", b"async def"), line)


def _is_word(text: bytes, at: int) -> bool:
    """True for a byte of an identifier; beyond ASCII every byte is one."""
    if not 0 <= at < len(text):
        return False
    byte = text[at]
    return byte >= 0x80 or byte == 0x5F or 0x30 <= byte <= 0x39 or 0x41 <= byte <= 0x5A or 0x61 <= byte <= 0x7A
