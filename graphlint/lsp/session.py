"""Open documents, projects and the runs between them: what is checked when, and what holds until then.

Each edit makes a new generation. A project's runs are of one generation and are dropped when the next comes; a run
that was dropped has lost little, since the warm program and the memory keep what was done. All analysis happens in
one thread of its own; everything else here belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from graphlint.config_keys import ConfigError
from graphlint.finding import Finding
from graphlint.lsp.diagnostics import moved
from graphlint.lsp.project import Options, Outcome, Parsing, Project, find_project
from graphlint.lsp.warm import Cancelled
from graphlint.source import Source

log = logging.getLogger("graphlint.lsp")


@dataclass(slots=True)
class Document:
    """An open file. `read` is its text when it last parsed, None if it never did."""

    uri: str
    path: Path
    version: int | None
    text: str
    read: str | None = None


@dataclass(slots=True)
class Checked:
    """A project and how far its runs have come."""

    project: Project
    near: int = -1
    """The generation of the last finished near run."""
    whole: int = -1
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    told: str | None = None


class Session:
    """`changed` is awaited after each run with the paths that it was about; `tell` shows a line to the user."""

    def __init__(
        self,
        options: Options,
        changed: Callable[[frozenset[str], bool], Awaitable[None]],
        tell: Callable[[str], None],
    ) -> None:
        self.options, self.changed, self.tell = options, changed, tell
        self.documents: dict[str, Document] = {}
        self.projects: dict[Path, Checked] = {}
        self.findings: dict[str, tuple[Finding, ...]] = {}
        """By path, as of the text in `sources`."""
        self.sources: dict[str, Source] = {}
        self.generation = 0
        self._edited = 0.0
        self._urgent = False
        self._done = asyncio.Condition()
        self._parses = Parsing()
        self._worker = ThreadPoolExecutor(1, "graphlint-lsp")
        self.early = True
        """Whether the client hears of what is found after it asked: a first answer may then be less than all."""
        self.seconds = 0.0
        """How long the last near run took."""

    # ---------------------------------------------------------------------------------------- what the editor says

    def add_folder(self, folder: Path) -> None:
        """A folder of the workspace: closed files in it are reported, too."""
        if self.options.whole and folder.is_dir():
            self._project(folder)
            self._edit(urgent=True)

    def open(self, document: Document) -> None:
        self.documents[str(document.path)] = document
        self._project(document.path)
        self._edit(urgent=True)

    def change(self, path: Path, version: int | None, text: str) -> None:
        document = self.documents.get(str(path))
        if document is not None:
            document.version, document.text = version, text
            self._edit()

    def close(self, path: Path) -> None:
        self.documents.pop(str(path), None)
        self._edit(urgent=True)

    def files_changed(self) -> None:
        """Something on disk came, went or changed."""
        for checked in self.projects.values():
            checked.project.files_changed()
        self._edit()

    def _edit(self, *, urgent: bool = False) -> None:
        self.generation += 1
        self._edited, self._urgent = time.monotonic(), urgent
        for checked in self.projects.values():
            checked.wake.set()

    def _project(self, path: Path) -> None:
        try:
            root, deep = find_project(path)
        except ConfigError as error:
            # The project is there all the same: what it says once its configuration is mended counts.
            self.tell(str(error))
            from graphlint.scope import marked_root

            folder = path if path.is_dir() else path.parent
            root, deep = marked_root(folder) or folder, True
        if not deep and self.owner(path) is not None:
            return  # no project's mark on the way up, but the user opened a folder around it
        if root not in self.projects:
            checked = Checked(Project(root, deep, self.options))
            self.projects[root] = checked
            checked.task = asyncio.get_running_loop().create_task(self._serve(checked))

    def owner(self, path: Path) -> Checked | None:
        """The innermost project around a file."""
        around = [root for root, checked in self.projects.items() if checked.project.owns(path)]
        return self.projects[max(around, key=lambda r: len(r.parts))] if around else None

    # ---------------------------------------------------------------------------------------- runs

    async def _serve(self, checked: Checked) -> None:
        """Runs of one project, for as long as the session lasts."""
        while True:
            await checked.wake.wait()
            checked.wake.clear()
            while not self._urgent and (rest := self._edited + self.options.debounce - time.monotonic()) > 0:
                await asyncio.sleep(rest)
            generation = self.generation
            try:
                if self.early and checked.near < 0:
                    await self._run(checked, generation, whole=False, early=True)
                await self._run(checked, generation, whole=False)
                if self.options.whole:
                    await self._run(checked, generation, whole=True)
                async with self._done:
                    checked.whole = max(checked.whole, generation)
                    self._done.notify_all()
            except Cancelled:
                continue
            except Exception:
                log.exception("the analysis failed")
                self.tell("the analysis failed, which is a fault of graphlint; its log has the details")
                async with self._done:
                    checked.near = checked.whole = generation
                    self._done.notify_all()

    async def _run(self, checked: Checked, generation: int, *, whole: bool, early: bool = False) -> None:
        loop = asyncio.get_running_loop()
        outcome = await loop.run_in_executor(self._worker, self._analyse, checked, generation, whole, early)
        if outcome is None:
            return
        if generation != self.generation:
            raise Cancelled
        project = checked.project
        about = {p for p in outcome.findings if (self.owner(Path(p)) or checked) is checked}
        gone: set[str] = set()
        if outcome.whole:
            gone = {p for p, found in self.findings.items() if found and p not in outcome.findings}
            gone = {p for p in gone if self.owner(Path(p)) is checked}
        for path in gone:
            self.findings.pop(path, None)
        for path in about:
            self.findings[path] = outcome.findings[path]
        self.sources.update(outcome.sources)
        for path in about:
            document = self.documents.get(path)
            if document is not None and path not in outcome.sources:
                self.sources[path] = Source(document.path, _plain(document.read or document.text))
        if project.problem is not None and project.problem != checked.told:
            self.tell(project.problem)
        checked.told = project.problem
        await self.changed(frozenset(about | gone), outcome.whole)
        async with self._done:
            checked.near = generation
            self._done.notify_all()

    def _analyse(self, checked: Checked, generation: int, whole: bool, early: bool) -> Outcome | None:
        """In the analysis thread."""

        def cancelled() -> bool:
            return self.generation != generation

        start = time.perf_counter()
        texts: dict[Path, str] = {}
        for document in list(self.documents.values()):
            if cancelled():
                raise Cancelled
            text = document.text
            if text != document.read and self._parses(document.path, text):
                document.read = text
            texts[document.path] = document.read if document.read is not None else text
        if early:
            return checked.project.early(texts, cancelled)
        outcome = checked.project.run(texts, whole, cancelled)
        if not whole:
            self.seconds = time.perf_counter() - start
        log.info("%s run: %.0f ms, %d captures run", "whole" if whole else "near", 1000 * self.seconds, outcome.fresh)
        return outcome

    async def settled(self, path: Path | None) -> None:
        """Returns when what is known of `path`, or of everything, is of the newest generation."""

        def ready() -> bool:
            if path is None:
                return all(c.whole >= self.generation for c in self.projects.values())
            checked = self.owner(path)
            return checked is None or checked.near >= self.generation

        async with self._done:
            await self._done.wait_for(ready)

    def stop(self) -> None:
        self.generation += 1
        for checked in self.projects.values():
            if checked.task is not None:
                checked.task.cancel()
        self._worker.shutdown(wait=False, cancel_futures=True)

    # ---------------------------------------------------------------------------------------- what is known

    def found(self, path: str) -> list[Finding]:
        """Findings of a file at their places in the text that the editor has now."""
        findings = self.findings.get(path, ())
        document = self.documents.get(path)
        if document is None or not findings or path not in self.sources:
            return list(findings)
        old, new = self.sources[path].lines, Source(document.path, _plain(document.text)).lines
        return list(findings) if old == new else moved(findings, old, new)

    def current(self, paths: Iterable[str]) -> bool:
        """Whether what is known of these files is of the texts that the editor has now: only then do edits fit."""
        for path in paths:
            document = self.documents.get(path)
            if document is None:
                continue
            source = self.sources.get(path)
            if source is None or source.text != _plain(document.text):
                return False
        return True

    def text(self, path: str) -> str:
        """A file's text for places in it: the buffer, or what was analysed."""
        if (document := self.documents.get(path)) is not None:
            return document.text
        source = self.sources.get(path)
        return source.text if source is not None else ""


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff")
