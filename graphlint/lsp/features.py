"""What the server answers: one function for each request, and how they are registered."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types as lsp
from pygls.uris import to_fs_path

from graphlint.finding import Finding
from graphlint.lsp import actions
from graphlint.lsp.books import follow_notebooks
from graphlint.lsp.diagnostics import diagnostic, result_id, shown_code
from graphlint.lsp.server import Server, path_of
from graphlint.lsp.session import Document, Session
from graphlint.registry import page
from graphlint.source import Location, Source
from graphlint.suppress import directives

_OWN = frozenset({"unused-suppression", "unreadable-file", "unknown-rule", "missing-reason"})
FIX_ALL = "source.fixAll.graphlint"
#: Large heaps make full collections slow, and the trees that an analysis builds are kept for the next.
_COLLECT = (100_000, 50, 100)


async def pull_document(server: Server, params: lsp.DocumentDiagnosticParams) -> lsp.DocumentDiagnosticReport:
    uri = params.text_document.uri
    path, session = server.path(uri), server.session
    if path is None or session is None:
        return lsp.RelatedFullDocumentDiagnosticReport([])
    await session.settled(path)
    found = server.diagnostics(str(path), uri if str(path) in server.books else None)
    mark = result_id(found)
    server.delivered[uri if str(path) in server.books else server.uri(str(path))] = mark
    if params.previous_result_id == mark:
        return lsp.RelatedUnchangedDocumentDiagnosticReport(mark)
    return lsp.RelatedFullDocumentDiagnosticReport(found, result_id=mark)


async def pull_workspace(server: Server, params: lsp.WorkspaceDiagnosticParams) -> lsp.WorkspaceDiagnosticReport:
    session = server.session
    assert session is not None
    await session.settled(None)
    known = {str(path_of(item.uri) or item.uri): item for item in params.previous_result_ids}
    items: list[lsp.WorkspaceFullDocumentDiagnosticReport | lsp.WorkspaceUnchangedDocumentDiagnosticReport] = []
    for path in sorted(({p for p, found in session.findings.items() if found} | known.keys()) - server.books.keys()):
        found = server.diagnostics(path)
        mark = result_id(found)
        document, before = session.documents.get(path), known.get(path)
        uri = before.uri if before is not None else server.uri(path)
        version = document.version if document is not None else None
        if before is not None and before.value == mark:
            items.append(lsp.WorkspaceUnchangedDocumentDiagnosticReport(uri, mark, version))
        else:
            items.append(lsp.WorkspaceFullDocumentDiagnosticReport(uri, found, version, result_id=mark))
    return lsp.WorkspaceDiagnosticReport(items)


async def code_actions(server: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """From the server's own findings at the range: what the client sends along may be of an older text."""
    uri = params.text_document.uri
    path, session = server.path(uri), server.session
    if path is None or session is None:
        return []
    await session.settled(path)
    name = str(path)
    only = params.context.only
    everything = session.found(name)
    found: list[lsp.CodeAction] = []
    if _wanted(only, lsp.CodeActionKind.QuickFix):
        places = [(server.place(f.at), f) for f in everything]
        cells = name in server.books
        here = [f for at, f in places if (not cells or at.uri == uri) and _touches(at.range, params.range)]
        told: set[str] = set()
        for finding in here:
            found += _fixes(server, session, finding, everything, told)
    # Only if it is asked for: as a command on save, not in the list of the light bulb.
    if only and _wanted(only, FIX_ALL) and session.current([name]):
        fix = actions.every_safe(everything, name, session.sources)
        if fix is not None and session.current(e.path for e in fix.edits):
            found.append(lsp.CodeAction("graphlint: " + fix.title, FIX_ALL, edit=server.edit(fix)))
    return [action for action in found if action.edit is not None]


def _fixes(
    server: Server, session: Session, finding: Finding, everything: Sequence[Finding], told: set[str]
) -> list[lsp.CodeAction]:
    """What can be done about one finding. `told` holds the rules whose fix for all is offered already."""
    path = finding.at.path
    shown = [diagnostic(finding, server.place, related=server.related)]
    found: list[lsp.CodeAction] = []
    quick = lsp.CodeActionKind.QuickFix
    if not session.current([path]):
        return []
    if finding.fix is not None and session.current(e.path for e in finding.fix.edits):
        fix = finding.fix
        look = "" if fix.safe else " (needs a look)"
        title = f"graphlint: {fix.title}{look}"
        found.append(lsp.CodeAction(title, quick, shown, is_preferred=fix.safe, edit=server.edit(fix)))
        every = actions.all_of_rule(everything, finding.rule, path, session.sources)
        if every is not None and finding.rule not in told and session.current(e.path for e in every.edits):
            told.add(finding.rule)
            look = "" if every.safe else " (needs a look)"
            found.append(lsp.CodeAction(f"graphlint: {every.title}{look}", quick, shown, edit=server.edit(every)))
    if finding.rule not in _OWN:
        source = session.sources.get(path)
        if source is not None:
            fix = actions.suppression(finding, source)
            found.append(lsp.CodeAction(f"graphlint: {fix.title}", quick, shown, edit=server.edit(fix)))
    return found


def _wanted(only: Sequence[lsp.CodeActionKind | str] | None, kind: lsp.CodeActionKind | str) -> bool:
    """Kinds are dotted: a client that asks for `source` wants `source.fixAll`, too."""
    text = str(getattr(kind, "value", kind))
    asked = [str(getattr(k, "value", k)) for k in only or ()]
    return not asked or any(text == k or text.startswith(k + ".") or k == "" for k in asked)


def _touches(a: lsp.Range, b: lsp.Range) -> bool:
    def key(p: lsp.Position) -> tuple[int, int]:
        return p.line, p.character

    return key(a.start) <= key(b.end) and key(b.start) <= key(a.end)


async def hover(server: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    """What is known at a place, with the rule's page; also of a rule that a suppression names."""
    uri, at, session = params.text_document.uri, params.position, server.session
    where = server.position(uri, at) if session is not None else None
    if where is None or session is None:
        return None
    path, point = where[0], lsp.Range(at, at)
    name = str(path)
    for finding in session.found(name):
        place = server.place(finding.at)
        if _touches(place.range, point) and (name not in server.books or place.uri == uri):
            return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, _told(server, finding)), place.range)
    for directive in directives(Source(path, session.text(name))):
        for rule in directive.rules:
            place = server.place(Location(name, rule.span))
            found = server.registry.find(rule.word)
            if found is not None and _touches(place.range, point) and (name not in server.books or place.uri == uri):
                return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, page(found)), place.range)
    return None


def _told(server: Server, finding: Finding) -> str:
    rows = [f"**{shown_code(finding)}** {_escaped(finding.message)}", ""]
    for note in finding.notes:
        where, place = f"{os.path.basename(note.at.path)}:{note.at.line}", server.place(note.at)
        rows.append(f"- {_escaped(note.message)}: [{where}]({place.uri}#L{place.range.start.line + 1})")
    found = server.registry.find(finding.rule)
    if found is not None:
        rows += ["", "---", "", page(found)]
    return "\n".join(rows)


def _escaped(text: str) -> str:
    """Text of linted code in Markdown: no links, images or HTML."""
    return "".join("\\" + c if c in "\\[]<>!*_#|&" else c for c in text)


# -------------------------------------------------------------------------------------------- wiring


def make_server() -> Server:
    """A server with all features but those that depend on the client."""
    server = Server()

    @server.feature(lsp.INITIALIZE)
    def initialize(server: Server, params: lsp.InitializeParams) -> None:
        server.start(params)
        whole = server.session is not None and server.session.options.whole
        if server.pull:
            options = lsp.DiagnosticOptions(
                identifier="graphlint", inter_file_dependencies=True, workspace_diagnostics=whole
            )
            server.feature(lsp.TEXT_DOCUMENT_DIAGNOSTIC, options)(pull_document)
            if whole:
                server.feature(lsp.WORKSPACE_DIAGNOSTIC)(pull_workspace)

    @server.feature(lsp.INITIALIZED)
    async def initialized(server: Server, params: lsp.InitializedParams) -> None:
        await server.begin()

    @server.feature(lsp.SHUTDOWN)
    def shutdown(server: Server, params: None) -> None:
        if server.session is not None:
            server.session.stop()

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(server: Server, params: lsp.DidOpenTextDocumentParams) -> None:
        item = params.text_document
        path = path_of(item.uri)
        if path is not None and server.session is not None:
            server.uris[str(path)] = item.uri
            server.delivered.pop(item.uri, None)
            server.session.open(Document(item.uri, path, item.version, item.text))

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(server: Server, params: lsp.DidChangeTextDocumentParams) -> None:
        path = path_of(params.text_document.uri)
        if path is not None and server.session is not None:
            text = server.workspace.get_text_document(params.text_document.uri).source
            server.session.change(path, params.text_document.version, text)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(server: Server, params: lsp.DidSaveTextDocumentParams) -> None:
        # Clients that watch no files tell of new ones by saving them at the latest.
        if server.session is not None and not server.watches:
            server.session.files_changed()

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def did_close(server: Server, params: lsp.DidCloseTextDocumentParams) -> None:
        path = path_of(params.text_document.uri)
        if path is None or server.session is None:
            return
        server.session.close(path)
        checked = server.session.owner(path)
        loose = checked is None or not checked.project.deep_scope or not server.session.options.whole
        if loose or not path.is_file():
            server.session.findings.pop(str(path), None)
            server.delivered.pop(server.uri(str(path)), None)
            if not server.pull:
                server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(params.text_document.uri, []))

    follow_notebooks(server)

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def did_change_files(server: Server, params: lsp.DidChangeWatchedFilesParams) -> None:
        if server.session is not None:
            server.session.files_changed()

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    async def did_change_folders(server: Server, params: lsp.DidChangeWorkspaceFoldersParams) -> None:
        for folder in params.event.added:
            path = to_fs_path(folder.uri)
            if path and server.session is not None:
                server.session.add_folder(Path(os.path.abspath(path)))

    kinds: list[lsp.CodeActionKind | str] = [lsp.CodeActionKind.QuickFix, FIX_ALL]
    server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(code_action_kinds=kinds))(code_actions)
    server.feature(lsp.TEXT_DOCUMENT_HOVER)(hover)
    return server


def serve() -> None:
    """Serves one client over standard input and output until it says exit."""
    level = os.environ.get("GRAPHLINT_LSP_LOG", "WARNING").upper()
    logging.basicConfig(level=level if level in ("DEBUG", "INFO", "WARNING", "ERROR") else "WARNING")
    logging.getLogger("pygls").setLevel(logging.ERROR)
    gc.set_threshold(*_COLLECT)
    # The protocol gets descriptors of its own; whatever else prints, prints to standard error.
    reader, writer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    make_server().start_io(reader, writer)
