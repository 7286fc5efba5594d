"""What lies in which folder and what is in the files, each asked of the system once; editor buffers lie on top."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Bytes of files kept for a second search.
CACHE_BYTES = 100_000_000


@dataclass(slots=True)
class Disk:
    """`overlay` maps absolute paths to texts that stand in place of the files'."""

    overlay: Mapping[str, str]
    _listings: dict[str, tuple[frozenset[str], frozenset[str]]] = field(default_factory=dict)
    _bytes: dict[str, bytes] = field(default_factory=dict)
    _kept: int = 0

    def listing(self, folder: str) -> tuple[frozenset[str], frozenset[str]]:
        """Names of the files and of the folders in `folder`."""
        found = self._listings.get(folder)
        if found is None:
            files: set[str] = set()
            folders: set[str] = set()
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        (folders if entry.is_dir() else files).add(entry.name)
            except OSError:
                pass
            for path in self.overlay:
                if os.path.dirname(path) == folder:
                    files.add(os.path.basename(path))
            found = self._listings[folder] = frozenset(files), frozenset(folders)
        return found

    def has_file(self, folder: str, name: str) -> bool:
        return name in self.listing(folder)[0]

    def has_folder(self, folder: str, name: str) -> bool:
        return name in self.listing(folder)[1]

    def read(self, path: str, keep: bool = True) -> bytes:
        """The bytes of a file.

        Raises:
            OSError: it cannot be read.
        """
        text = self.overlay.get(path)
        if text is not None:
            return text.encode("utf-8", "surrogatepass")
        data = self._bytes.get(path)
        if data is None:
            with open(path, "rb") as file:
                data = file.read()
            if keep and self._kept + len(data) <= CACHE_BYTES:
                self._bytes[path] = data
                self._kept += len(data)
        return data
