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
from graphlint.lsp.diagnostics import diagnostic, result_id
from graphlint.lsp.positions import Encoding, Table
from graphlint.lsp.project import Options
from graphlint.lsp.session import Session
from graphlint.registry import Registry, load_rules

log = logging.getLogger("graphlint.lsp")
_WATCHED = ("**/*.py", "**/*.ipynb", "**/pyproject.toml", "**/graphlint.toml", "**/.graphlint.toml")


class Server(LanguageServer):
    """One client. `session` exists once the client has initialized."""

    def __init__(self) -> None:
        super().__init__("graphlint", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Full, max_workers=2)
        self.session: Session | None = None
        self.pull = False
        self.uris: dict[str, str] = {}
        self.delivered: dict[str, str] = {}
        """By path, the result id of what the client has."""
        self.tables: dict[str, tuple[str, Table]] = {}
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
        return self.uris.get(path) or from_fs_path(path) or ""

    def table(self, path: str) -> Table:
        assert self.session is not None
        text = self.session.text(path)
        known = self.tables.get(path)
        if known is None or known[0] is not text:
            known = self.tables[path] = text, Table.of(text, self.workspace.position_encoding or Encoding.Utf16)
        return known[1]

    def diagnostics(self, path: str) -> list[lsp.Diagnostic]:
        assert self.session is not None
        found = self.session.found(path)
        return [diagnostic(f, self.table, self.uri, related=self.related) for f in found]

    async def changed(self, paths: frozenset[str], whole: bool) -> None:
        """A run ended: tells the client what it has not heard, or that it should ask."""
        assert self.session is not None
        if self.pull:
            if self.refreshes:
                asyncio.get_running_loop().create_task(self._refresh(paths))
            return
        for path in sorted(paths | (self.session.documents.keys() & paths)):
            found = self.diagnostics(path)
            document = self.session.documents.get(path)
            mark = result_id(found)
            known = self.delivered.get(path)
            if known == mark or (known is None and not found and document is None):
                continue
            self.delivered[path] = mark
            self.text_document_publish_diagnostics(
                lsp.PublishDiagnosticsParams(self.uri(path), found, document.version if document else None)
            )

    async def _refresh(self, paths: frozenset[str]) -> None:
        """Asks the client to pull again if it does not by itself: after an edit it pulls the edited file, no other."""
        assert self.session is not None
        generation = self.session.generation
        await asyncio.sleep(0.3)
        if generation != self.session.generation:
            return
        opened = [path for path in paths if path in self.session.documents]
        if any(self.delivered.get(path) != result_id(self.diagnostics(path)) for path in opened):
            await self.workspace_diagnostic_refresh_async(None)

    # ---------------------------------------------------------------------------------------- edits

    def edit(self, fix: Fix) -> lsp.WorkspaceEdit:
        """The edits of a fix, against the versions that they were made for."""
        assert self.session is not None
        by_path: dict[str, list[lsp.TextEdit]] = {}
        for edit in fix.edits:
            changed = lsp.TextEdit(self.table(edit.path).range(edit.span), edit.text)
            by_path.setdefault(edit.path, []).append(changed)
        if not self.versioned:
            return lsp.WorkspaceEdit(changes={self.uri(path): edits for path, edits in by_path.items()})
        changes: list[Any] = []
        for path, edits in by_path.items():
            document = self.session.documents.get(path)
            version = document.version if document is not None else None
            where = lsp.OptionalVersionedTextDocumentIdentifier(uri=self.uri(path), version=version)
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
