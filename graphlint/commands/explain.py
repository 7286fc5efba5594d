"""`graphlint explain`: a rule's page, or the rules behind an error text."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from graphlint.commands.output import emit, use_color
from graphlint.config_keys import suggest
from graphlint.registry import Registry, load_rules, page


@click.command()
@click.argument("what", nargs=-1, required=True)
@click.option("--rule-folder", multiple=True, metavar="FOLDER", help="Rules of your own; their code is run.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to use colour.")
def explain(what: tuple[str, ...], rule_folder: tuple[str, ...], color: str) -> int:
    """Explain a rule (`host-sync`, `GL001`), or an error text or traceback that you met; - reads it from a pipe."""
    registry = load_rules([Path(p) for p in rule_folder])
    text = " ".join(what)
    if text == "-":
        text = sys.stdin.read()
    found = registry.find(text.strip())
    if found is not None:
        show(page(found), color)
        return 0
    from graphlint.knowledge.errors import look_up

    matches = look_up(text)
    if matches:
        show(answer(text, matches, registry), color)
        return 0
    hint = suggest(text.strip(), registry.known) if len(text) < 60 else ""
    raise click.UsageError(
        f"neither a rule nor an error text that is known{hint}; `graphlint rules` lists the rules, and of a traceback "
        "the last lines are enough"
    )


def answer(text: str, matches: object, registry: Registry) -> str:
    """What is known of an error text: the advice, and the rules that find its causes in the source."""
    from graphlint.knowledge.errors import ErrorText

    assert isinstance(matches, list)
    rows: list[str] = []
    for match in matches:
        assert isinstance(match, ErrorText)
        rows += [f"# {match.text}", "", match.advice, ""]
        for name in match.rules:
            rule = registry.find(name)
            rows.append(f"- `{rule.code}[{rule.name}]` {rule.summary}" if rule is not None else f"- `{name}`")
        rows.append("")
    names = dict.fromkeys(name for match in matches for name in match.rules)
    if names:
        rows.append(f"More: `graphlint explain {next(iter(names))}`; find the line: `graphlint check .`")
        rows.append("")
    return "\n".join(rows)


def show(markdown: str, color: str) -> None:
    """Markdown as it is in a pipe, laid out in a terminal."""
    if not use_color(color):
        emit(markdown if markdown.endswith("\n") else markdown + "\n")
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console(force_terminal=True)
    with console.capture() as capture:
        console.print(Markdown(markdown))
    emit(capture.get())
