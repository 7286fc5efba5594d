"""The server through pytest-lsp, with what VS Code, Neovim and Emacs say they can do."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pytest_lsp", reason="pytest-lsp is not installed: pip install pytest-lsp pytest-asyncio")
pytest.importorskip("pygls", reason="pygls is not installed: pip install 'torch-graphlint[lsp]'")

import pytest_asyncio
import pytest_lsp
from lsprotocol import types as lsp
from pygls.uris import from_fs_path
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from tests.editors.project import BROKEN, SCALING, SINGLE, write

CONFIG = ClientServerConfig(server_command=[sys.executable, "-m", "graphlint", "lsp"])
PRESETS = ["visual-studio-code", "neovim", "emacs"]
RULE = """
from graphlint.fact import HostRead
from graphlint.finding import Edit, Fix, Problem
from graphlint.rule import rule
from graphlint.source import Span


@rule("XX001", "own-rule", "warning", "a rule of the user's own")
def check(region):
    for fact in region.captured:
        if isinstance(fact, HostRead):
            span = fact.at.span
            end = Span(span.end_line, span.end_column - len(".item()"), span.end_line, span.end_column)
            fix = Fix("keep it on the device", (Edit(fact.at.path, end, ""),), True)
            yield Problem(fact.at, "own words", region.way(fact), fix)
"""


class Editor:
    """A client that speaks whichever way was agreed, push or pull."""

    def __init__(self, client: LanguageClient, folder: Path, result: lsp.InitializeResult) -> None:
        self.client, self.folder = client, folder
        self.capabilities = result.capabilities
        self.pull = result.capabilities.diagnostic_provider is not None
        self.versions: dict[str, int] = {}
        self.related = True

    def uri(self, name: str) -> str:
        return from_fs_path(str(self.folder / name)) or ""

    def open(self, name: str, text: str | None = None) -> None:
        text = (self.folder / name).read_text(encoding="utf-8") if text is None else text
        self.versions[name] = 1
        item = lsp.TextDocumentItem(uri=self.uri(name), language_id="python", version=1, text=text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))

    def change(self, name: str, text: str) -> None:
        self.versions[name] += 1
        document = lsp.VersionedTextDocumentIdentifier(uri=self.uri(name), version=self.versions[name])
        change = lsp.TextDocumentContentChangeWholeDocument(text=text)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(document, [change]))

    async def diagnostics(self, name: str, until: Callable[[list[lsp.Diagnostic]], bool]) -> list[lsp.Diagnostic]:
        """What the editor shows once `until` holds; fails after 20 s with what it shows instead."""
        found: list[lsp.Diagnostic] = []
        for _ in range(400):
            if self.pull:
                document = lsp.TextDocumentIdentifier(self.uri(name))
                report = await self.client.text_document_diagnostic_async(lsp.DocumentDiagnosticParams(document))
                found = list(getattr(report, "items", []))
            else:
                found = list(self.client.diagnostics.get(self.uri(name), []))
            if until(found):
                return found
            await asyncio.sleep(0.05)
        raise AssertionError(f"{name}: {[(d.range.start.line, d.code) for d in found]}")

    async def actions(self, name: str, at: lsp.Range, only: list[Any] | None = None) -> list[lsp.CodeAction]:
        context = lsp.CodeActionContext(diagnostics=[], only=only)
        params = lsp.CodeActionParams(lsp.TextDocumentIdentifier(self.uri(name)), at, context)
        return [
            a for a in await self.client.text_document_code_action_async(params) or [] if isinstance(a, lsp.CodeAction)
        ]


def one(found: list[lsp.Diagnostic]) -> bool:
    return len(found) == 1


def none(found: list[lsp.Diagnostic]) -> bool:
    return not found


def edited(action: lsp.CodeAction, uri: str, text: str) -> str:
    """The text after the action; ASCII lines only."""
    assert action.edit is not None
    if action.edit.document_changes:
        edits = [e for c in action.edit.document_changes if isinstance(c, lsp.TextDocumentEdit) for e in c.edits]
        assert all(
            c.text_document.uri == uri for c in action.edit.document_changes if isinstance(c, lsp.TextDocumentEdit)
        )
    else:
        edits = list((action.edit.changes or {})[uri])
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:i])) for i in range(len(lines) + 1)]
    for edit in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character), reverse=True):
        start, end = (starts[p.line] + p.character for p in (edit.range.start, edit.range.end))
        text = text[:start] + edit.new_text + text[end:]
    return text


async def begin(client: LanguageClient, folder: Path, preset: str, **options: Any) -> Editor:
    root = from_fs_path(str(folder)) or ""
    client.feature(lsp.CLIENT_REGISTER_CAPABILITY)(lambda params: None)
    params = lsp.InitializeParams(
        capabilities=client_capabilities(preset),
        root_uri=root,
        workspace_folders=[lsp.WorkspaceFolder(root, "demo")],
        initialization_options=options or None,
    )
    return Editor(client, folder, await client.initialize_session(params))


@pytest_lsp.fixture(config=CONFIG)
async def bare(lsp_client: LanguageClient) -> AsyncIterator[None]:
    """A client that has not said hello yet."""
    yield
    await asyncio.wait_for(lsp_client.shutdown_session(), 20)


@pytest_asyncio.fixture(params=PRESETS)
async def editor(request: pytest.FixtureRequest, bare: LanguageClient, tmp_path: Path) -> Editor:
    made = await begin(bare, write(tmp_path, single=SINGLE), request.param)
    made.related = request.param != "emacs"
    return made


@pytest.mark.asyncio
async def test_columns_severity_and_way(editor: Editor) -> None:
    editor.open("single.py")
    (found,) = await editor.diagnostics("single.py", one)
    encoding = editor.capabilities.position_encoding
    start = {"utf-8": 33, "utf-16": 25, "utf-32": 24}[str(getattr(encoding, "value", encoding) or "utf-16")]
    assert (found.range.start.line, found.range.start.character) == (6, start)
    assert found.range.end.character - found.range.start.character == len("x.sum().item()")
    assert found.code == "GL001[host-sync]" and found.source == "graphlint"
    assert found.severity == lsp.DiagnosticSeverity.Error
    if editor.related:
        related = found.related_information or []
        assert [(r.location.range.start.line, r.message) for r in related] == [(5, "captured here")]
    else:
        assert found.message.endswith("\ncaptured here: single.py:6")


@pytest.mark.asyncio
async def test_an_edit_of_a_helper_reaches_it_before_it_is_saved(editor: Editor) -> None:
    editor.open("runner.py")
    editor.open("scaling.py")
    await editor.diagnostics("scaling.py", none)
    editor.change("scaling.py", BROKEN)
    (found,) = await editor.diagnostics("scaling.py", one)
    if editor.related:
        assert [Path(r.location.uri).name for r in found.related_information or []] == ["runner.py", "runner.py"]
    # The capture goes, in the other file: so does the finding here.
    editor.change(
        "runner.py", (editor.folder / "runner.py").read_text().replace("with torch.cuda.graph(graph):", "if True:")
    )
    await editor.diagnostics("scaling.py", none)
    assert (editor.folder / "scaling.py").read_text(encoding="utf-8") == SCALING


@pytest.mark.asyncio
async def test_a_syntax_error_keeps_the_last_good_result_in_place(editor: Editor) -> None:
    editor.open("single.py")
    await editor.diagnostics("single.py", one)
    editor.change("single.py", "# one line more\n" + SINGLE + "def (\n")
    (found,) = await editor.diagnostics("single.py", lambda d: len(d) == 1 and d[0].range.start.line == 7)
    assert await editor.actions("single.py", found.range) == []  # an edit would not fit the text that was analysed
    editor.change("single.py", SINGLE.replace("x.sum().item()", "x.sum()"))
    await editor.diagnostics("single.py", none)


@pytest.mark.asyncio
async def test_a_form_feed_and_unicode_separators_are_no_line_ends(editor: Editor) -> None:
    editor.open("single.py")
    await editor.diagnostics("single.py", one)
    editor.change("single.py", "\x0c\nz = 'a\u2028b\x1c\x85'\r\n" + SINGLE)
    await editor.diagnostics("single.py", lambda d: len(d) == 1 and d[0].range.start.line == 8)


@pytest.mark.asyncio
async def test_fast_edits_end_with_the_last(editor: Editor) -> None:
    editor.open("single.py")
    await editor.diagnostics("single.py", one)
    for count in range(1, 21):
        editor.change("single.py", "#\n" * count + SINGLE)
    await editor.diagnostics("single.py", lambda d: len(d) == 1 and d[0].range.start.line == 26)


@pytest.mark.asyncio
async def test_a_suppression_silences_it(editor: Editor) -> None:
    text = SINGLE.replace("日本語😀", "")
    editor.open("single.py", text)
    (found,) = await editor.diagnostics("single.py", one)
    title = "graphlint: ignore host-sync on this line, with a reason"
    ignore = next(a for a in await editor.actions("single.py", found.range) if a.title == title)
    after = edited(ignore, editor.uri("single.py"), text)
    assert "x.sum().item()  # graphlint: ignore[host-sync] TODO: say why this is fine\n" in after
    editor.change("single.py", after)
    await editor.diagnostics("single.py", none)


@pytest.mark.asyncio
async def test_one_and_all_of_a_rule(editor: Editor) -> None:
    text = "import torch\n\na = 1  # graphlint: ignore[host-sync] no\nb = 2  # graphlint: ignore[host-sync] no\n"
    editor.open("single.py", text)
    first, second = await editor.diagnostics("single.py", lambda d: len(d) == 2)
    assert list(first.tags or []) == [lsp.DiagnosticTag.Unnecessary]
    found = await editor.actions("single.py", second.range)
    assert [a.title for a in found] == [
        "graphlint: remove the unused suppression",
        "graphlint: fix all unused-suppression in this file",
    ]
    uri = editor.uri("single.py")
    assert edited(found[0], uri, text) == text.replace("b = 2  # graphlint: ignore[host-sync] no", "b = 2")
    assert edited(found[1], uri, text) == "import torch\n\na = 1\nb = 2\n"
    (every,) = await editor.actions("single.py", first.range, [lsp.CodeActionKind.SourceFixAll])
    assert edited(every, uri, text) == "import torch\n\na = 1\nb = 2\n"


@pytest.mark.asyncio
async def test_hover_shows_the_page(editor: Editor) -> None:
    editor.open("single.py")
    (found,) = await editor.diagnostics("single.py", one)
    where = lsp.TextDocumentIdentifier(editor.uri("single.py"))
    hover = await editor.client.text_document_hover_async(lsp.HoverParams(where, found.range.start))
    assert hover is not None and isinstance(hover.contents, lsp.MarkupContent)
    assert "GL001[host-sync]" in hover.contents.value.replace("\\", "")
    assert "captured here" in hover.contents.value and "## Why it breaks" in hover.contents.value
    nothing = await editor.client.text_document_hover_async(lsp.HoverParams(where, lsp.Position(0, 0)))
    assert nothing is None


@pytest.mark.asyncio
async def test_closed_files_are_reported(editor: Editor) -> None:
    editor.open("runner.py")
    await editor.diagnostics("runner.py", none)
    if not editor.pull:
        await editor.diagnostics("single.py", one)
        return
    report = await editor.client.workspace_diagnostic_async(lsp.WorkspaceDiagnosticParams([]))
    (item,) = [i for i in report.items if i.uri.endswith("single.py")]
    assert isinstance(item, lsp.WorkspaceFullDocumentDiagnosticReport) and len(item.items) == 1
    assert item.result_id is not None
    again = [lsp.PreviousResultId(item.uri, item.result_id)]
    report = await editor.client.workspace_diagnostic_async(lsp.WorkspaceDiagnosticParams(again))
    assert [type(i) for i in report.items] == [lsp.WorkspaceUnchangedDocumentDiagnosticReport]


@pytest.mark.asyncio
async def test_a_file_written_by_another_program_is_seen(editor: Editor) -> None:
    editor.open("runner.py")
    await editor.diagnostics("runner.py", none)
    (editor.folder / "scaling.py").write_text(BROKEN, encoding="utf-8")
    event = lsp.FileEvent(editor.uri("scaling.py"), lsp.FileChangeType.Changed)
    editor.client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams([event]))
    await editor.diagnostics("scaling.py", one)


@pytest.mark.asyncio
async def test_push_or_pull_never_both(editor: Editor) -> None:
    editor.open("single.py")
    await editor.diagnostics("single.py", one)
    await asyncio.sleep(0.5)
    assert editor.pull == (not editor.client.diagnostics)
    if editor.pull:
        assert editor.capabilities.diagnostic_provider is not None
        assert editor.capabilities.diagnostic_provider.inter_file_dependencies
    assert editor.capabilities.text_document_sync is not None
    assert getattr(editor.capabilities.text_document_sync, "change", None) == lsp.TextDocumentSyncKind.Full


@pytest.mark.asyncio
async def test_configuration_and_baseline_hold_and_are_followed(bare: LanguageClient, tmp_path: Path) -> None:
    editor = await begin(bare, write(tmp_path, single=SINGLE), "emacs")
    editor.open("single.py")
    await editor.diagnostics("single.py", one)
    project = tmp_path / "pyproject.toml"
    project.write_text(project.read_text() + 'ignore = ["GL001"]\n')
    editor.change("single.py", "#\n" + SINGLE)
    await editor.diagnostics("single.py", none)
    project.write_text(project.read_text().replace("ignore", "ignored"))
    editor.change("single.py", "#\n#\n" + SINGLE)
    for _ in range(200):
        if editor.client.messages:
            break
        await asyncio.sleep(0.05)
    assert "did you mean `ignore`?" in editor.client.messages[0].message


@pytest.mark.asyncio
@pytest.mark.parametrize("trusted", [False, True])
async def test_a_users_own_rules_run_only_in_a_trusted_workspace(
    bare: LanguageClient, tmp_path: Path, trusted: bool
) -> None:
    rules = tmp_path / "rules" / "xx001_own_rule"
    rules.mkdir(parents=True)
    (rules / "rule.py").write_text(RULE)
    folder = tmp_path / "project"
    folder.mkdir()
    editor = await begin(
        bare,
        write(folder, single=SINGLE.replace("日本語😀", "")),
        "visual-studio-code",
        trusted=trusted,
        ruleFolders=[str(rules.parent)],
    )
    editor.open("single.py")
    if not trusted:
        (found,) = await editor.diagnostics("single.py", one)
        assert found.code == "GL001[host-sync]"
        assert "until the workspace is trusted" in editor.client.messages[0].message
        return
    found = await editor.diagnostics("single.py", lambda d: len(d) == 2)
    own = next(d for d in found if d.code == "XX001[own-rule]")
    action = next(
        a for a in await editor.actions("single.py", own.range) if a.title == "graphlint: keep it on the device"
    )
    assert action.is_preferred and action.edit is not None and action.edit.document_changes
    (change,) = action.edit.document_changes
    assert isinstance(change, lsp.TextDocumentEdit) and change.text_document.version == 1
    text = SINGLE.replace("日本語😀", "")
    after = edited(action, editor.uri("single.py"), text)
    assert after == text.replace("x.sum().item()", "x.sum()")
    editor.change("single.py", after)
    await editor.diagnostics("single.py", none)


@pytest.mark.asyncio
async def test_a_project_cannot_name_rules(bare: LanguageClient, tmp_path: Path) -> None:
    folder = write(tmp_path, single=SINGLE)
    (folder / "pyproject.toml").write_text('[tool.graphlint]\nrule-folder = ["rules"]\n')
    editor = await begin(bare, folder, "neovim")
    editor.open("single.py")
    await editor.diagnostics("single.py", one)  # the rules that come with graphlint go on
    assert any("never from a project" in message.message for message in editor.client.messages)


@pytest.mark.asyncio
async def test_a_folder_without_any_mark_is_one_project(bare: LanguageClient, tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "pyproject.toml").unlink()
    (folder / "parts").mkdir()
    (folder / "scaling.py").rename(folder / "parts" / "scaling.py")
    runner = folder / "runner.py"
    runner.write_text(runner.read_text().replace("from scaling", "from parts.scaling"))
    editor = await begin(bare, folder, "neovim")
    editor.open("parts/scaling.py", BROKEN)
    await editor.diagnostics("parts/scaling.py", one)


@pytest.mark.asyncio
async def test_what_the_baseline_knows_is_not_shown(bare: LanguageClient, tmp_path: Path) -> None:
    folder = write(tmp_path, single=SINGLE)
    command = [sys.executable, "-m", "graphlint", "baseline", "--output", "known.json", "."]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with (folder / "pyproject.toml").open("a") as file:
        file.write('baseline = "known.json"\n')
    editor = await begin(bare, folder, "visual-studio-code")
    editor.open("single.py")
    await editor.diagnostics("single.py", none)
    editor.change("single.py", SINGLE.replace("graph.replay()", "    largest = x.max().item()\ngraph.replay()"))
    (found,) = await editor.diagnostics("single.py", one)
    assert "x.max().item()" in found.message


@pytest.mark.asyncio
@pytest.mark.skipif(sys.platform != "linux", reason="names that are no text")
async def test_hostile_files_beside_it_are_no_trouble(editor: Editor) -> None:
    text = (editor.folder / "single.py").read_bytes()
    (editor.folder / os.fsdecode(b"n\xe9.py")).write_bytes(text)
    (editor.folder / "huge.py").write_bytes(b"import single\n" + b"x = 1\n" * 900_000)
    (editor.folder / "nul.py").write_bytes(text + b"\0")
    (editor.folder / "deep.py").write_bytes(b"y = " + b"-" * 5000 + b"1\n" + text)
    os.mkfifo(editor.folder / "pipe.py")
    editor.open("single.py")
    await editor.diagnostics("single.py", one)
    await asyncio.sleep(1)
    editor.change("single.py", "#\n" + SINGLE)
    await editor.diagnostics("single.py", lambda d: len(d) == 1 and d[0].range.start.line == 7)
    assert not [m.message for m in editor.client.messages if "fault of graphlint" in m.message]
