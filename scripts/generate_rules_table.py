"""Writes the table of rules in rules/README.md: `python scripts/generate_rules_table.py [--check]`.

The table stands between two markers; the rest of the page is written by hand. Code, name and sentence come from a
rule's page, its severity from rule.py. `--check` writes nothing and fails if the table is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from graphlint.registry import TOOL_RULES, load_folder  # noqa: E402

PAGE = ROOT / "rules" / "README.md"
BEGIN, END = "<!-- table: scripts/generate_rules_table.py -->", "<!-- end of table -->"


def heading(page: Path) -> tuple[str, str, str]:
    """Code, name and the sentence under the heading of a rule's page.

    Raises:
        ValueError: the page does not begin with `# GLNNN name`, an empty line and a sentence.
    """
    lines = page.read_text(encoding="utf-8").splitlines()
    words = lines[0].removeprefix("# ").split()
    if len(words) != 2 or not lines[0].startswith("# ") or len(lines) < 3 or not lines[2]:
        raise ValueError(f"{page}: does not begin with `# GLNNN name`, an empty line and a sentence")
    return words[0], words[1], lines[2].rstrip(".")


def row(folder: Path) -> str:
    code, name, sentence = heading(folder / "README.md")
    severity = load_folder(folder)[0].severity if (folder / "rule.py").is_file() else "planned"
    return f"| {code} | [{name}]({folder.name}/README.md) | {severity} | {sentence} |"


def table(rules: Path) -> str:
    """The table for all rule folders in `rules`, and the tool's own findings."""
    lines = ["| code | rule | severity | what it finds |", "|---|---|---|---|"]
    lines += [row(page.parent) for page in sorted(rules.glob("*/README.md"))]
    lines += [f"| {rule.code} | {rule.name} | {rule.severity} | {rule.summary} |" for rule in TOOL_RULES]
    return "\n".join(lines)


def renew(text: str, fresh: str) -> str:
    """`text` with `fresh` between the markers.

    Raises:
        ValueError: a marker is missing.
    """
    head, found, rest = text.partition(BEGIN)
    _, closed, tail = rest.partition(END)
    if not found or not closed:
        raise ValueError(f"the page lacks `{BEGIN}` or `{END}`")
    return f"{head}{BEGIN}\n{fresh}\n{END}{tail}"


def main(arguments: list[str]) -> int:
    old = PAGE.read_text(encoding="utf-8")
    new = renew(old, table(PAGE.parent))
    if "--check" in arguments:
        if new != old:
            print("rules/README.md is out of date: run `python scripts/generate_rules_table.py`", file=sys.stderr)
        return int(new != old)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
