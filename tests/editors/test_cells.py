"""Notebooks in an editor: each cell is a document of its own, all cells are one program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("pytest_lsp", reason="pytest-lsp is not installed: pip install pytest-lsp pytest-asyncio")

import pytest_asyncio
from lsprotocol import types as lsp
from pytest_lsp import LanguageClient

from tests.editors.project import write
from tests.editors.test_protocol import Editor, bare, begin, edited, none, one

__all__ = ["bare"]

CELLS = {
    "setup": "%matplotlib inline\nimport torch\nx = torch.ones(8, device='cuda')\n",
    "shell": "%%bash\necho hello\n",
    "capture": "g = torch.cuda.CUDAGraph()\nx.sum()\nwith torch.cuda.graph(g):\n    y = x.sum().item()\n",
}


class Cells(Editor):
    """The notebook `a.ipynb` and its cells, which go by their names."""

    def uri(self, name: str) -> str:
        return super().uri(name) if "." in name else f"vscode-notebook-cell:{self.folder / 'a.ipynb'}#{name}"

    def open_book(self) -> None:
        made = [lsp.NotebookCell(kind=lsp.NotebookCellKind.Code, document=self.uri(name)) for name in CELLS]
        texts = [lsp.TextDocumentItem(self.uri(name), "python", 1, text) for name, text in CELLS.items()]
        book = lsp.NotebookDocument(self.uri("a.ipynb"), "jupyter-notebook", 1, made)
        self.client.notebook_document_did_open(lsp.DidOpenNotebookDocumentParams(book, texts))

    def change_cell(self, name: str, text: str, version: int) -> None:
        cell = lsp.VersionedTextDocumentIdentifier(version=version, uri=self.uri(name))
        changed = lsp.NotebookDocumentCellContentChanges(cell, [lsp.TextDocumentContentChangeWholeDocument(text)])
        change = lsp.NotebookDocumentChangeEvent(cells=lsp.NotebookDocumentCellChanges(text_content=[changed]))
        book = lsp.VersionedNotebookDocumentIdentifier(version=version, uri=self.uri("a.ipynb"))
        self.client.notebook_document_did_change(lsp.DidChangeNotebookDocumentParams(book, change))

    def remove_cell(self, name: str, version: int) -> None:
        start = list(CELLS).index(name)
        gone = lsp.NotebookCellArrayChange(start, 1, [])
        structure = lsp.NotebookDocumentCellChangeStructure(gone, [], [lsp.TextDocumentIdentifier(self.uri(name))])
        change = lsp.NotebookDocumentChangeEvent(cells=lsp.NotebookDocumentCellChanges(structure=structure))
        book = lsp.VersionedNotebookDocumentIdentifier(version=version, uri=self.uri("a.ipynb"))
        self.client.notebook_document_did_change(lsp.DidChangeNotebookDocumentParams(book, change))


@pytest_asyncio.fixture(params=["visual-studio-code", "emacs"])
async def cells(request: pytest.FixtureRequest, bare: LanguageClient, tmp_path: Path) -> Cells:
    folder = write(tmp_path)
    listed = [{"cell_type": "code", "source": text, "outputs": []} for text in CELLS.values()]
    (folder / "a.ipynb").write_text(json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    made = await begin(bare, folder, request.param)
    made.__class__ = Cells
    assert isinstance(made, Cells)
    made.open_book()
    return made


@pytest.mark.asyncio
async def test_a_finding_stands_in_its_cell_and_follows_the_others(cells: Cells) -> None:
    (found,) = await cells.diagnostics("capture", one)
    assert (found.range.start.line, found.range.start.character, found.code) == (3, 8, "GL001[host-sync]")
    for related in found.related_information or []:
        assert related.location.uri == cells.uri("capture") and related.location.range.start.line == 2
    await cells.diagnostics("setup", none)
    # What another cell says decides: on the CPU nothing is captured.
    cells.change_cell("setup", "import torch\n\n\nx = torch.ones(8)\n", 2)
    await cells.diagnostics("capture", none)
    cells.change_cell("setup", "import torch\n\n\n\nx = torch.ones(8, device='cuda')\n", 3)
    (found,) = await cells.diagnostics("capture", one)
    assert found.range.start.line == 3


@pytest.mark.asyncio
async def test_a_cell_that_goes_takes_its_findings_along(cells: Cells) -> None:
    await cells.diagnostics("capture", one)
    cells.remove_cell("capture", 2)
    await cells.diagnostics("capture", none)


@pytest.mark.asyncio
async def test_quick_fixes_edit_the_cell(cells: Cells) -> None:
    (found,) = await cells.diagnostics("capture", one)
    offered = await cells.actions("capture", found.range)
    ignore = next(a for a in offered if "ignore host-sync" in a.title)
    after = edited(ignore, cells.uri("capture"), CELLS["capture"])
    assert after.endswith("y = x.sum().item()  # graphlint: ignore[host-sync] TODO: say why this is fine\n")
    assert await cells.actions("setup", found.range) == []
    cells.change_cell("capture", after, 2)
    await cells.diagnostics("capture", none)


@pytest.mark.asyncio
async def test_hover_works_in_a_cell(cells: Cells) -> None:
    (found,) = await cells.diagnostics("capture", one)
    where = lsp.TextDocumentIdentifier(cells.uri("capture"))
    hover = await cells.client.text_document_hover_async(lsp.HoverParams(where, found.range.start))
    assert hover is not None and isinstance(hover.contents, lsp.MarkupContent)
    assert "## Why it breaks" in hover.contents.value
    elsewhere = lsp.TextDocumentIdentifier(cells.uri("setup"))
    assert await cells.client.text_document_hover_async(lsp.HoverParams(elsewhere, found.range.start)) is None


@pytest.mark.asyncio
async def test_a_notebook_that_is_closed_leaves_nothing(cells: Cells) -> None:
    await cells.diagnostics("capture", one)
    gone = [lsp.TextDocumentIdentifier(cells.uri(name)) for name in CELLS]
    book = lsp.NotebookDocumentIdentifier(cells.uri("a.ipynb"))
    cells.client.notebook_document_did_close(lsp.DidCloseNotebookDocumentParams(book, gone))
    await cells.diagnostics("capture", none)
