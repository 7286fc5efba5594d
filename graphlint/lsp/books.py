"""Open notebooks: each is one document to the session, its joined cells, and a document a cell to the client."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from lsprotocol import types as lsp
from pygls.uris import to_fs_path

from graphlint.lsp.session import Document
from graphlint.notebooks import Notebook, join
from graphlint.source import Span

if TYPE_CHECKING:
    from graphlint.lsp.server import Server

NOTEBOOKS = lsp.NotebookDocumentSyncOptions(
    notebook_selector=[lsp.NotebookDocumentFilterWithCells(cells=[lsp.NotebookCellLanguage("python")])], save=True
)


@dataclass(frozen=True, slots=True)
class OpenCell:
    """`first` is the line of the joined text where it starts."""

    uri: str
    first: int
    text: str


@dataclass(frozen=True, slots=True)
class Book:
    uri: str
    notebook: Notebook
    cells: tuple[OpenCell, ...]

    def cell(self, line: int) -> OpenCell | None:
        """The cell of a line of the joined text, None if the notebook has no code."""
        found = self.notebook.cell(line)
        return None if found is None else self.cells[found.number - 1]

    def holds(self, span: Span) -> bool:
        """Whether one cell holds all of a span; its end may be the beginning of the line after it."""
        cell, last = self.cell(span.line), span.end_line - (span.end_column == 1 and span.end_line > span.line)
        return cell is not None and cell == self.cell(last)


def shifted(span: Span, lines: int) -> Span:
    return Span(span.line + lines, span.column, span.end_line + lines, span.end_column)


def read(server: Server, uri: str) -> tuple[Path, Book] | None:
    """An open notebook as the client has it now; None for one that is no file."""
    path, document = _file(uri), server.workspace.get_notebook_document(notebook_uri=uri)
    if path is None or document is None:
        return None
    code = [cell.document for cell in document.cells if cell.kind == lsp.NotebookCellKind.Code]
    texts = [server.workspace.get_text_document(cell).source for cell in code]
    texts = [text.replace("\r\n", "\n").replace("\r", "\n") for text in texts]
    notebook = join(enumerate(texts, 1))
    cells = [OpenCell(cell, made.first, made.text) for cell, made in zip(code, notebook.cells, strict=True)]
    return path, Book(uri, notebook, tuple(cells))


def _file(uri: str) -> Path | None:
    parts = urlsplit(uri)
    path = to_fs_path(uri) if parts.scheme == "file" else None
    path = path or (unquote(parts.path) if parts.scheme.startswith("vscode-notebook") else None)
    return Path(os.path.abspath(path)) if path else None


def follow_notebooks(server: Server) -> None:
    """Registers what a client says of notebooks."""

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_OPEN)
    async def opened(params: lsp.DidOpenNotebookDocumentParams) -> None:
        found = read(server, params.notebook_document.uri)
        if found is not None and server.session is not None:
            path, book = found
            server.books[str(path)] = book
            server.uris[str(path)] = book.uri
            version = params.notebook_document.version
            server.session.open(Document(book.uri, path, version, book.notebook.joined))

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE)
    async def changed(params: lsp.DidChangeNotebookDocumentParams) -> None:
        found = read(server, params.notebook_document.uri)
        if found is not None and server.session is not None:
            path, book = found
            before = {cell.uri for cell in server.books[str(path)].cells} if str(path) in server.books else set()
            server.books[str(path)] = book
            server.session.change(path, params.notebook_document.version, book.notebook.joined)
            _forget(server, before - {cell.uri for cell in book.cells})

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CLOSE)
    async def closed(params: lsp.DidCloseNotebookDocumentParams) -> None:
        path = _file(params.notebook_document.uri)
        book = server.books.pop(str(path), None)
        if path is not None and book is not None and server.session is not None:
            server.session.close(path)
            server.session.findings.pop(str(path), None)
            _forget(server, {cell.uri for cell in book.cells})


def _forget(server: Server, cells: set[str]) -> None:
    """Takes back what was said of cells that are gone."""
    for uri in sorted(cells):
        if server.delivered.pop(uri, None) is not None and not server.pull:
            server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))
