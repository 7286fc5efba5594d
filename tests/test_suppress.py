"""Comments that silence findings: where they are found, what they reach, and what is said of idle ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import suppress
from graphlint.finding import Finding
from graphlint.fix import rewrite
from graphlint.registry import TOOL_RULES
from graphlint.source import Location, Source, Span

KNOWN = {
    "host-sync": "host-sync", "GL001": "host-sync", "stale-input": "stale-input", "GL009": "stale-input",
    **{word: rule.name for rule in TOOL_RULES for word in (rule.name, rule.code)},
}  # fmt: skip


def source(text: str) -> Source:
    return Source(Path("/p/a.py"), text)


def finding(line: int, rule: str = "host-sync", end: int | None = None) -> Finding:
    at = Location("/p/a.py", Span(line, 1, end or line, 5))
    return Finding(rule, "GL001", "error", at, "a message")


def silenced(text: str, *findings: Finding) -> list[int]:
    outcome = suppress.apply(findings, {"/p/a.py": suppress.directives(source(text))}, KNOWN)
    return [f.at.line for f in outcome.silenced]


def own(text: str, *findings: Finding, **options: bool) -> list[Finding]:
    found = suppress.directives(source(text))
    suppress.apply(findings, {"/p/a.py": found}, KNOWN)
    return list(suppress.own_findings(source(text), "/p/a.py", found, KNOWN, {"host-sync", "stale-input"}, **options))


@pytest.mark.parametrize(
    "comment",
    ["# graphlint: ignore[host-sync] why", "#graphlint:ignore[GL001]", "# graphlint: ignore[gl001, stale-input] x",
     "# graphlint: ignore", "# type: ignore  # graphlint: ignore[host-sync] why", "# noqa: GL001",
     "# noqa:E501,GL001", "# NOQA : x  # noqa: GL001"],
)  # fmt: skip
def test_a_trailing_comment_silences_its_line(comment: str) -> None:
    assert silenced(f"a\nx.item()  {comment}\nb\n", finding(2), finding(3)) == [2]


@pytest.mark.parametrize(
    "line",
    ['x = "# graphlint: ignore[host-sync]"', "x = '''\n# graphlint: ignore[host-sync]\n'''", "x = 1  # noqa",
     "x = 1  # graphlint: ignore[stale-input] other rule", "x = 1  # graphlint ignore[host-sync]"],
)  # fmt: skip
def test_what_is_no_suppression_silences_nothing(line: str) -> None:
    """Text in a string is data, and a bare `noqa` was written for other linters."""
    assert silenced(line + "\n", *[finding(n) for n in range(1, 4)]) == []


def test_a_comment_of_its_own_silences_the_next_statement_to_its_end() -> None:
    text = "# graphlint: ignore[host-sync] why\n\n# another comment\nf(\n    x.item(),\n)\nx.item()\n"
    assert silenced(text, finding(5), finding(7)) == [5]


def test_a_comment_at_the_end_of_a_statement_silences_all_of_it() -> None:
    assert silenced("f(\n  x.item(),\n)  # graphlint: ignore[host-sync] why\n", finding(2)) == [2]


def test_a_comment_inside_a_statement_silences_its_own_line_only() -> None:
    assert silenced("f(\n  x.item(),  # graphlint: ignore[host-sync] why\n  y,\n)\n", finding(2), finding(3)) == [2]


def test_the_file_form_silences_the_file() -> None:
    assert silenced("a\nb\n# graphlint: ignore-file[host-sync] generated\n", finding(1), finding(2)) == [1, 2]


@pytest.mark.parametrize(
    "broken",
    ["def f(:\n    x.item()  # graphlint: ignore[host-sync] why\n",
     "(\n    x.item()  # graphlint: ignore[host-sync] why\n",
     "if a:\n  b\n c\nd = 0777\nx.item()  # graphlint: ignore[host-sync] why\n",
     "s = 'open\nx.item()  # graphlint: ignore[host-sync] why\n"],
)  # fmt: skip
def test_comments_are_found_in_files_that_do_not_parse(broken: str) -> None:
    line = broken.count("\n")
    assert silenced(broken, finding(line)) == [line]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_do_not_matter(end: str) -> None:
    assert silenced(end.join(["a", "x  # graphlint: ignore[host-sync] why", "b", ""]), finding(2)) == [2]


def test_an_unused_suppression_is_a_finding_and_its_fix_removes_it() -> None:
    text = "x = 1  # graphlint: ignore[host-sync] why\n"
    (found,) = own(text)
    assert (found.code, found.at.line) == ("GL901", 1)
    assert found.fix is not None and rewrite(source(text), found.fix.edits) == "x = 1\n"


def test_only_the_idle_rule_is_removed_from_a_list() -> None:
    text = "x.item()  # graphlint: ignore[stale-input, host-sync] why\n"
    (found,) = own(text, finding(1))
    assert "`stale-input`" in found.message
    assert found.fix is not None
    assert rewrite(source(text), found.fix.edits) == "x.item()  # graphlint: ignore[host-sync] why\n"


def test_codes_of_other_linters_stay_in_a_noqa() -> None:
    text = "x = 1  # noqa: E501, GL001\n"
    (found,) = own(text)
    assert found.fix is not None and rewrite(source(text), found.fix.edits) == "x = 1  # noqa: E501\n"


def test_a_comment_line_of_its_own_goes_with_its_line() -> None:
    text = "a = 1\n# graphlint: ignore[host-sync] why\nb = 1\n"
    (found,) = own(text)
    assert found.fix is not None and rewrite(source(text), found.fix.edits) == "a = 1\nb = 1\n"


def test_other_comments_on_the_line_stay() -> None:
    text = "x = 1  # graphlint: ignore[host-sync] why  # type: ignore\n"
    (found,) = own(text)
    assert found.fix is not None and rewrite(source(text), found.fix.edits) == "x = 1  # type: ignore\n"


def test_an_unknown_rule_is_a_finding_with_a_suggestion() -> None:
    (found,) = own("x.item()  # graphlint: ignore[host-snyc, host-sync] why\n", finding(1))
    assert found.code == "GL903" and "did you mean `host-sync`" in found.message
    assert found.at.span == Span(1, 31, 1, 40)


def test_an_unknown_verb_is_a_finding() -> None:
    (found,) = own("x.item()  # graphlint: ingore[host-sync] why\n")
    assert found.code == "GL903" and "`graphlint: ingore`" in found.message


def test_a_rule_that_did_not_run_is_not_called_unused() -> None:
    text = "x = 1  # graphlint: ignore[unused-suppression] why\n"
    assert own(text) == []


def test_reasons_can_be_required() -> None:
    (found,) = own("x.item()  # graphlint: ignore[host-sync]\n", finding(1), require_reason=True)
    assert found.code == "GL904"
    assert own("x.item()  # graphlint: ignore[host-sync] why\n", finding(1), require_reason=True) == []


def test_two_suppressions_of_one_finding_are_both_used() -> None:
    text = "# graphlint: ignore-file[host-sync] all\nx.item()  # graphlint: ignore[host-sync] why\n"
    assert own(text, finding(2)) == []


def test_a_finding_in_an_installed_package_may_be_silenced_at_the_capture() -> None:
    from graphlint.finding import Note

    far = Location("/site-packages/m.py", Span(9, 1, 9, 5))
    found = Finding("host-sync", "GL001", "error", far, "m", (Note(Location("/p/a.py", Span(1, 1, 1, 5)), "captured"),))
    files = {"/p/a.py": suppress.directives(source("with g:  # graphlint: ignore[host-sync] why\n"))}
    assert suppress.apply([found], files, KNOWN, at_notes={"/site-packages/m.py"}).silenced
    assert not suppress.apply([found], files, KNOWN).silenced
