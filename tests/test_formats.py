"""Every format against the tool that reads it, and hostile text of linted code harmless in all of them.

Validators that only npm has are found through GRAPHLINT_NPM, a folder `node_modules`; `.ci/run` installs them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from graphlint.engine import Place, RegionSummary, Report
from graphlint.finding import Edit, FileError, Finding, Fix, Note
from graphlint.registry import load_rules
from graphlint.report import FORMATS, render
from graphlint.report.view import View
from graphlint.source import Location, Span

NPM = os.environ.get("GRAPHLINT_NPM", "")
ROOT = Path(__file__).parent.parent
#: Commands of CI runners, terminal escapes, markup, bidirectional overrides, separators, broken surrogates.
HOSTILE = (
    "\x1b[2J\x1b]0;t\x07 \r\n::error::x\n##vso[task.x]\n::set-output name=a::b%0A <script>alert(1)</script> ]]> &amp; "
    "\" ' `\u202e\u2028\u0085\x00\ud800 %s {0} \n"
)


def needs_npm(package: str) -> Path:
    folder = Path(NPM, package)
    if not NPM or not folder.is_dir() or shutil.which("node") is None:
        pytest.skip(f"npm package {package} is not here: set GRAPHLINT_NPM to a node_modules that has it")
    return folder


def tool(name: str) -> str:
    path = Path(sys.executable).parent / name
    if not path.exists():
        pytest.skip(f"{name} is not installed: pip install --group tools")
    return str(path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "sub, dir:x").mkdir()
    (tmp_path / "sub, dir:x" / "a%b.py").write_text(
        "s = '日本語😀'; y = x.sum().item()\ny = (\n  1)\n", encoding="utf-8"
    )
    (tmp_path / "run.py").write_text("with g:\n    f(x)\n")
    return tmp_path


def report(project: Path, text: str = "`x.sum().item()` waits for the GPU, 100% of the time") -> Report:
    path, run = str(project / "sub, dir:x" / "a%b.py"), str(project / "run.py")
    at = Location(path, Span(1, 17, 1, 31))
    notes = (
        Note(Location(run, Span(1, 1, 1, 8)), "captured here"),
        Note(Location(run, Span(2, 5, 2, 9)), "`f` called here"),
    )
    fix = Fix("read after the replay", (Edit(path, Span(1, 17, 1, 31), "x.sum()"),), True)
    unsafe = Fix("both files", (Edit(path, at.span, "x"), Edit(run, Span(1, 1, 1, 2), "W")), False)
    second = Location(path, Span(2, 1, 3, 5))
    findings = (
        Finding("host-sync", "GL001", "error", at, text, notes, fix, "f"),
        Finding("host-sync", "GL001", "error", at, text, notes, None, "f"),
        Finding("stale-input", "GL009", "warning", second, text, notes[:1], unsafe, "g"),
        Finding("unused-suppression", "GL901", "note", second, text),
    )
    silenced = Finding("host-sync", "GL001", "error", second, text, notes, function="f", suppressed="known " + text)
    region = RegionSummary(
        "graph", Place(run, 1), text, None, "seen", (Place(run, 2, text),), (), (Place(run, 1, text),)
    )
    return Report(findings, (region,), (FileError(run, text),), frozenset([path, run]), (silenced,))


def view(project: Path, **options: Any) -> View:
    return View(cwd=str(project), version="1.2.3", rules=load_rules().by_name, root=str(project), **options)


def rendered(name: str, project: Path, text: str | None = None, **options: Any) -> str:
    made = report(project) if text is None else report(project, text)
    return render(name, made, view(project, **options))


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_text_is_harmless(name: str, project: Path) -> None:
    """No control character gets through, and no text from outside can start a line of its own."""
    out = rendered(name, project, HOSTILE, show_regions=True)
    plain = rendered(name, project, "harmless", show_regions=True)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", out.replace("\r\n", "\n")
    )
    out.encode("utf-8")
    for start in ("::error::", "::set-output", "##vso", "<script"):
        assert not any(line.lstrip().startswith(start) for line in out.splitlines())
    if name != "sarif":
        assert out.count("\n") - plain.count("\n") in ((0,) if name != "junit" else range(40)), "a line was forged"


@pytest.mark.parametrize("name", FORMATS)
def test_an_empty_report_is_valid(name: str, project: Path) -> None:
    out = render(name, Report(), view(project))
    if name in ("json", "sarif", "gitlab", "rdjson"):
        json.loads(out)
    if name == "junit":
        ElementTree.fromstring(out)
    if name == "gitlab":
        assert json.loads(out) == []


def test_concise_is_one_line_a_finding(project: Path) -> None:
    rows = rendered("concise", project, quiet=True).splitlines()
    assert (
        rows[0] == "sub, dir:x/a%b.py:1:17: error GL001[host-sync] `x.sum().item()` waits for the GPU, 100% of the time"
    )
    assert len(rows) == 4


def test_carets_stand_under_wide_characters(project: Path) -> None:
    rows = rendered("text", project, quiet=True).splitlines()
    code = next(r for r in rows if "日本語" in r)
    carets = rows[rows.index(code) + 1]
    # Three wide letters and an emoji take two columns each: four more than characters.
    assert carets.index("^") == code.index("x.sum()") + 4 and carets.count("^") == 14


def test_jsonl_is_one_object_a_line(project: Path) -> None:
    rows = [json.loads(line) for line in rendered("jsonl", project).splitlines()]
    assert [r.get("code", "error") for r in rows] == ["GL001", "GL001", "GL009", "GL901", "error"]


def test_gitlab_fingerprints_are_unique_and_survive_shifted_lines(project: Path) -> None:
    issues = json.loads(rendered("gitlab", project))
    marks = [i["fingerprint"] for i in issues]
    assert len(set(marks)) == 4
    for issue in issues:
        assert set(issue) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert isinstance(issue["location"]["lines"]["begin"], int) and not issue["location"]["path"].startswith(
            ("/", "./")
        )
    path = project / "sub, dir:x" / "a%b.py"
    path.write_text("# one more\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    at = Location(str(path), Span(2, 17, 2, 31))
    moved = Report((Finding("host-sync", "GL001", "error", at, "m", function="f"),))
    assert json.loads(render("gitlab", moved, view(project)))[0]["fingerprint"] == marks[0]


def test_junit_is_well_formed_and_counts(project: Path) -> None:
    for text in (None, HOSTILE):
        suites = ElementTree.fromstring(rendered("junit", project, text))
        assert (suites.get("tests"), suites.get("failures")) == ("4", "3")
        assert len(suites.findall(".//failure")) == 3


def test_sarif_says_what_code_scanning_shows(project: Path) -> None:
    (run,) = json.loads(rendered("sarif", project))["runs"]
    assert run["columnKind"] == "unicodeCodePoints"
    first, _, third, _, silenced = run["results"]
    steps = first["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [s["location"]["physicalLocation"]["region"]["startLine"] for s in steps] == [1, 2, 1]
    uri = first["locations"][0]["physicalLocation"]["artifactLocation"]
    assert uri == {"uri": "sub%2C%20dir%3Ax/a%25b.py", "uriBaseId": "SRCROOT"}
    assert first["locations"][0]["physicalLocation"]["region"]["startColumn"] == 17
    assert first["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"] == {"text": "x.sum()"}
    assert len(third["fixes"][0]["artifactChanges"]) == 2
    assert silenced["suppressions"][0]["kind"] == "inSource" and "suppressions" not in first
    assert len({r["partialFingerprints"]["graphlint/v1"] for r in run["results"]}) == 5
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == first["ruleId"] == "GL001"


@pytest.mark.parametrize("text", [None, HOSTILE])
def test_sarif_passes_the_official_schema(project: Path, text: str | None) -> None:
    schema = needs_npm("@microsoft/sarif-multitool-linux") / "sarif-2.1.0.json"
    path = project / "out.sarif"
    path.write_text(rendered("sarif", project, text), encoding="utf-8")
    run = subprocess.run(
        [tool("check-jsonschema"), "--schemafile", schema, path], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stdout + run.stderr
    path.write_text(path.read_text().replace('"startLine": 1', '"startLine": 0'))
    assert subprocess.run([tool("check-jsonschema"), "--schemafile", schema, path], capture_output=True).returncode == 1


@pytest.mark.parametrize("text", [None, HOSTILE])
def test_sarif_passes_the_rules_of_github(project: Path, text: str | None) -> None:
    """The validator always exits 0: its own report tells.

    Of its notes these remain: message identifiers, version control, and links that it cannot reach offline.
    """
    binary = needs_npm("@microsoft/sarif-multitool-linux") / "Sarif.Multitool"
    path, out = project / "out.sarif", project / "checked.sarif"
    path.write_text(rendered("sarif", project, text), encoding="utf-8")
    command = [binary, "validate", path, "--rule-kind", "Sarif;Ghas", "--level", "Error;Warning;Note"]
    environ = {**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    run = subprocess.run(
        [*command, "--log", "ForceOverwrite", "--output", out], capture_output=True, text=True, timeout=120, env=environ
    )
    assert out.exists(), run.stdout + run.stderr
    (checked,) = json.loads(out.read_text(encoding="utf-8-sig"))["runs"]
    results = checked.get("results", [])
    worse = [(r["ruleId"], r["message"]) for r in results if r.get("level", "warning") in ("error", "warning")]
    assert worse == []
    assert {r["ruleId"] for r in results} <= {"SARIF2002", "SARIF2003", "SARIF2006"}


def test_github_commands_are_what_actions_core_makes(project: Path) -> None:
    """`@actions/core` is the runner's own library: it must print the very same line."""
    core = needs_npm("@actions/core")
    out = rendered("github", project).splitlines()[0]
    script = f"""
    const core = await import({json.dumps((core / "lib/core.js").as_uri())});
    const message = "`x.sum().item()` waits for the GPU, 100% of the time";
    const way = "\\ncaptured here: run.py:1\\n`f` called here: run.py:2";
    const place = {{startLine: 1, endLine: 1, startColumn: 17, endColumn: 31}};
    core.error(message + way, {{title: "GL001: host-sync", file: "sub, dir:x/a%b.py", ...place}});
    """
    run = subprocess.run(["node", "--input-type=module", "-e", script], capture_output=True, text=True, timeout=60)
    assert run.stdout.strip() == out, run.stderr


def test_github_shows_errors_first_and_counts_what_it_hides(project: Path) -> None:
    path = str(project / "run.py")
    many = [Finding("a", "GL001", "warning", Location(path, Span(1, 1, 1, 2)), "w")] * 12
    last = Finding("a", "GL001", "error", Location(path, Span(2, 1, 2, 2)), "e")
    rows = render("github", Report((*many, last)), view(project)).splitlines()
    assert rows[0].startswith("::error ") and rows[-1].startswith("graphlint: 2 warnings more than the 10")


def test_rdjson_passes_its_validator_and_counts_bytes(project: Path) -> None:
    package = needs_npm("@umbrelladocs/rdformat-validator")
    text = rendered("rdjson", project)
    first = json.loads(text)["diagnostics"][0]
    assert first["location"]["range"]["start"] == {"line": 1, "column": 25 + 1}, "three letters of 3 bytes, one of 4"
    path = project / "out.json"
    for made in (text, rendered("rdjson", project, HOSTILE)):
        path.write_text(made, encoding="utf-8")
        command = ["node", package / "bin" / "rdformat-validator.js", path]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert run.returncode == 0, run.stdout + run.stderr
    path.write_text(text.replace('"diagnostics"', '"diagnosis"'))
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 1


def test_the_problem_matcher_reads_concise_output(project: Path) -> None:
    package = needs_npm("@rushstack/problem-matcher")
    script = f"""
    const {{ parseProblemMatchersJson }} = require({json.dumps(str(package))});
    const file = JSON.parse(require('fs').readFileSync({json.dumps(str(ROOT / ".github/graphlint-matcher.json"))}));
    const named = file.problemMatcher.map(m => ({{name: m.owner, severity: 'error', ...m}}));
    const [matcher] = parseProblemMatchersJson(named);
    const rows = require('fs').readFileSync(0, 'utf-8').split(/(?<=\\n)/);
    console.log(JSON.stringify(rows.map(r => matcher.exec(r)).filter(Boolean)));
    """
    run = subprocess.run(
        ["node", "-e", script], input=rendered("concise", project), capture_output=True, text=True, timeout=60
    )
    found = json.loads(run.stdout or "[]")
    assert [(p["file"], p["line"], p["column"], p["severity"], p["code"]) for p in found] == [
        ("sub, dir:x/a%b.py", 1, 17, "error", "GL001[host-sync]"),
        ("sub, dir:x/a%b.py", 1, 17, "error", "GL001[host-sync]"),
        ("sub, dir:x/a%b.py", 2, 1, "warning", "GL009[stale-input]"),
        ("sub, dir:x/a%b.py", 2, 1, found[3]["severity"], "GL901[unused-suppression]"),
    ], run.stderr
