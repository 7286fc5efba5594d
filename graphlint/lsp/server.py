"""The protocol: pygls on one side, a Session on the other.

Diagnostics are pushed or pulled, by what the client can do, never both: clients that got both show each one twice.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path

from graphlint import __version__
from graphlint.finding import Fix
from graphlint.lsp.books import NOTEBOOKS, Book, OpenCell, shifted
from graphlint.lsp.diagnostics import diagnostic, result_id
from graphlint.lsp.positions import Encoding, Table
from graphlint.lsp.project import Options
from graphlint.lsp.session import Session
from graphlint.registry import Registry, load_rules
from graphlint.source import Location

log = logging.getLogger("graphlint.lsp")
_WATCHED = ("**/*.py", "**/*.ipynb", "**/pyproject.toml", "**/graphlint.toml", "**/.graphlint.toml")


class Server(LanguageServer):
    """One client. `session` exists once the client has initialized."""

    def __init__(self) -> None:
        super().__init__(
            "graphlint",
            __version__,
            text_document_sync_kind=lsp.TextDocumentSyncKind.Full,
            notebook_document_sync=NOTEBOOKS,
            max_workers=2,
        )
        self.session: Session | None = None
        self.pull = False
        self.uris: dict[str, str] = {}
        self.delivered: dict[str, str] = {}
        """By path, the result id of what the client has."""
        self.tables: dict[str, tuple[str, Table]] = {}
        self.books: dict[str, Book] = {}
        """Open notebooks by path."""
        self.own: Registry | None = None

    # ---------------------------------------------------------------------------------------- start

    def start(self, params: lsp.InitializeParams) -> None:
        """Reads what the client can do and what the user set."""
        capabilities = params.capabilities
        text, workspace = capabilities.text_document, capabilities.workspace
        options, self.refused = read_options(params.initialization_options)
        self.pull = text is not None and text.diagnostic is not None and not options.push
        publish = text.publish_diagnostics if text is not None else None
        pulled = text.diagnostic if text is not None else None
        # Older clients announce it for the diagnostics that are pushed only; what is pulled has it in the type itself.
        self.related = bool((publish and publish.related_information) or pulled is not None)
        edits = workspace.workspace_edit if workspace is not None else None
        self.versioned = bool(edits and edits.document_changes)
        self.refreshes = bool(workspace and workspace.diagnostics and workspace.diagnostics.refresh_support)
        watching = workspace.did_change_watched_files if workspace is not None else None
        self.watches = bool(watching and watching.dynamic_registration)
        self.folders = [to_fs_path(folder.uri) for folder in params.workspace_folders or ()]
        root = params.root_uri and to_fs_path(params.root_uri)
        if not self.folders and root:
            self.folders = [root]
        self.session = Session(options, self.changed, self.tell)
        self.session.early = not self.pull or self.refreshes

    async def begin(self) -> None:
        """After `initialized`: the first runs, and the files to be told of."""
        assert self.session is not None
        if self.refused:
            self.tell(self.refused)
        for folder in self.folders:
            if folder:
                self.session.add_folder(Path(os.path.abspath(folder)))
        if self.watches:
            watchers = [lsp.FileSystemWatcher(glob_pattern=pattern) for pattern in _WATCHED]
            watched = lsp.DidChangeWatchedFilesRegistrationOptions(watchers)
            watch = lsp.Registration("graphlint-files", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, watched)
            try:
                await self.client_register_capability_async(lsp.RegistrationParams([watch]))
            except JsonRpcException as error:
                self.watches = False
                log.info("the client watches no files: %s", error)

    def tell(self, text: str) -> None:
        """A line that the user should see."""
        log.warning(text)
        self.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Warning, f"graphlint: {text}"))

    @property
    def registry(self) -> Registry:
        """Rules for pages: those of any project, or graphlint's own."""
        for checked in self.session.projects.values() if self.session else ():
            if checked.project.registry is not None:
                return checked.project.registry
        if self.own is None:
            self.own = load_rules()
        return self.own

    # ---------------------------------------------------------------------------------------- diagnostics

    def uri(self, path: str) -> str:
        """As the client spells it, if it ever did."""
        if (known := self.uris.get(path)) is not None:
            return known
        try:
            return from_fs_path(path) or ""
        except UnicodeEncodeError:  # a name that is no text
            return Path(path).as_uri()

    def table(self, path: str) -> Table:
        assert self.session is not None
        text = self.session.text(path)
        known = self.tables.get(path)
        if known is None or known[0] is not text:
            known = self.tables[path] = text, Table.of(text, self.workspace.position_encoding or Encoding.Utf16)
        return known[1]

    def place(self, at: Location) -> lsp.Location:
        """Where a place is for the client: of an open notebook, in one of its cells."""
        book = self.books.get(at.path)
        if book is not None and (cell := book.cell(at.span.line)) is not None:
            table = Table.of(cell.text, self.workspace.position_encoding or Encoding.Utf16)
            return lsp.Location(cell.uri, table.range(shifted(at.span, 1 - cell.first)))
        return lsp.Location(self.uri(at.path), self.table(at.path).range(at.span))

    def position(self, uri: str, position: lsp.Position) -> tuple[Path, int, int] | None:
        """The file, line and column that a client means; None for what is not linted."""
        if (found := self.cell(uri)) is not None:
            path, cell = found
            table = Table.of(cell.text, self.workspace.position_encoding or Encoding.Utf16)
            line, column = table.place(position)
            return path, line + cell.first - 1, column
        plain = path_of(uri)
        return None if plain is None else (plain, *self.table(str(plain)).place(position))

    def cell(self, uri: str) -> tuple[Path, OpenCell] | None:
        """The open notebook and the cell that a URI stands for."""
        for path, book in self.books.items():
            for cell in book.cells:
                if cell.uri == uri:
                    return Path(path), cell
        return None

    def path(self, uri: str) -> Path | None:
        """The file that a document belongs to: its own, or the notebook of a cell."""
        found = self.cell(uri)
        return path_of(uri) if found is None else found[0]

    def documents(self, path: str) -> list[str]:
        """The URIs of what a file consists of: of an open notebook, its cells."""
        book = self.books.get(path)
        return [self.uri(path)] if book is None else [cell.uri for cell in book.cells]

    def diagnostics(self, path: str, uri: str | None = None) -> list[lsp.Diagnostic]:
        """Of a file, or of one of a notebook's cells."""
        assert self.session is not None
        found = [(self.place(f.at).uri, f) for f in self.session.found(path)]
        wanted = [f for where, f in found if uri is None or where == uri]
        return [diagnostic(f, self.place, related=self.related) for f in wanted]

    async def changed(self, paths: frozenset[str], whole: bool) -> None:
        """A run ended: tells the client what it has not heard, or that it should ask."""
        assert self.session is not None
        if self.pull:
            if self.refreshes:
                asyncio.get_running_loop().create_task(self._refresh(paths))
            return
        for path in sorted(paths):
            opened = path in self.session.documents
            for uri in self.documents(path):
                found = self.diagnostics(path, uri)
                mark = result_id(found)
                known = self.delivered.get(uri)
                if known == mark or (known is None and not found and not opened):
                    continue
                self.delivered[uri] = mark
                version = self.version_of(path, uri)
                self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, found, version))

    def version_of(self, path: str, uri: str) -> int | None:
        """Of an open document or cell."""
        if path in self.books:
            return self.workspace.get_text_document(uri).version
        document = self.session.documents.get(path) if self.session is not None else None
        return document.version if document is not None else None

    async def _refresh(self, paths: frozenset[str]) -> None:
        """Asks the client to pull again if it does not by itself: after an edit it pulls the edited file, no other."""
        assert self.session is not None
        generation = self.session.generation
        await asyncio.sleep(0.3)
        if generation != self.session.generation:
            return
        opened = [(path, uri) for path in paths if path in self.session.documents for uri in self.documents(path)]
        if any(self.delivered.get(uri) != result_id(self.diagnostics(path, uri)) for path, uri in opened):
            await self.workspace_diagnostic_refresh_async(None)

    # ---------------------------------------------------------------------------------------- edits

    def edit(self, fix: Fix) -> lsp.WorkspaceEdit | None:
        """The edits of a fix, against the versions that they were made for; None if one reaches over two cells."""
        by_uri: dict[str, tuple[str, list[lsp.TextEdit]]] = {}
        for edit in fix.edits:
            place, book = self.place(Location(edit.path, edit.span)), self.books.get(edit.path)
            if book is not None and not book.holds(edit.span):
                return None
            by_uri.setdefault(place.uri, (edit.path, []))[1].append(lsp.TextEdit(place.range, edit.text))
        if not self.versioned:
            return lsp.WorkspaceEdit(changes={uri: edits for uri, (_, edits) in by_uri.items()})
        changes: list[Any] = []
        for uri, (path, edits) in by_uri.items():
            where = lsp.OptionalVersionedTextDocumentIdentifier(uri=uri, version=self.version_of(path, uri))
            changes.append(lsp.TextDocumentEdit(where, list(edits)))
        return lsp.WorkspaceEdit(document_changes=changes)


def read_options(given: object) -> tuple[Options, str | None]:
    """The user's settings, and a line for the user if rule folders were refused."""
    settings = given if isinstance(given, dict) else {}
    settings = settings.get("settings", settings)
    if not isinstance(settings, dict):
        return Options(), None
    folders = settings.get("ruleFolders") or ()
    folders = tuple(str(f) for f in folders) if isinstance(folders, (list, tuple)) else ()
    python = settings.get("python")
    trusted = settings.get("trusted") is True
    delay = settings.get("debounce", 250)
    whole = settings.get("workspace", True)
    refused = None
    if folders and not trusted:
        refused = (
            "the rule folders in the settings hold code that is run; they are left out until the workspace is trusted"
        )
    options = Options(
        folders,
        trusted,
        python if isinstance(python, str) and python else None,
        max(0, delay) / 1000 if isinstance(delay, (int, float)) and not isinstance(delay, bool) else 0.25,
        whole is not False,
        settings.get("diagnostics") == "push",
    )
    return options, refused


def path_of(uri: str) -> Path | None:
    """The file of a URI, None for buffers that have none and for what is not Python."""
    if not uri.startswith("file:"):
        return None
    path = to_fs_path(uri)
    return Path(os.path.abspath(path)) if path and not path.endswith(".ipynb") else None
