"""Writes graphlint/knowledge/operators.json from measurements made on a GPU.

    python scripts/generate_operators.py operators.json facts.json

`operators.json` holds, for each operator of torch's own operator database, how many sample calls captured, failed and
synchronised; `facts.json` holds single expressions with what their capture did. Only what the linter looks up is
carried over, with the device, the torch version and the date. Without `--check` the table is written; with it, the
script fails if the table in the tree is not what the measurements give.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

TABLE = Path(__file__).parent.parent / "graphlint" / "knowledge" / "operators.json"


def short(error: str) -> str:
    """The error's first sentence, without the exception's name."""
    text = error.split("Error: ", 1)[-1] if error.split(":")[0].endswith("Error") else error
    return text.strip().removesuffix(".")


def build(operators: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """The table: per operator [samples that captured, that failed, that synchronised] and the errors."""
    rows: dict[str, Any] = {}
    for name, row in sorted(operators["operators"].items()):
        counts: list[Any] = [row["samples_ok"], row["samples_failed"], row["samples_syncing_eagerly"]]
        if row["samples_failed"]:
            counts.append([short(e) for e in row["error"]])
        rows[name] = counts
    calls = {
        key: {"call": row["expression"], "capture": row["capture"]}
        | ({"error": short(row["error"])} if row.get("error") else {})
        for key, row in sorted(facts["expressions"].items())
    }
    first = {key: row["capture"] for key, row in sorted(facts["first_use_in_capture"].items())}
    for part in (operators, facts):
        if (part["device"], part["torch"]) != (operators["device"], operators["torch"]):
            raise SystemExit("the two measurements are from different machines or versions")
    head = {"device": operators["device"], "torch": operators["torch"], "date": operators["date"]}
    return {**head, "operators": rows, "calls": calls, "first_use_in_capture": first}


def render(table: dict[str, Any]) -> str:
    """One line for each row, so that a new measurement gives a readable diff."""
    lines = ["{"]
    for key in ("device", "torch", "date"):
        lines.append(f" {json.dumps(key)}: {json.dumps(table[key])},")
    parts = ("operators", "calls", "first_use_in_capture")
    for part in parts:
        lines.append(f" {json.dumps(part)}: {{")
        rows = [f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in table[part].items()]
        lines.append(",\n".join(rows))
        lines.append(" }" if part == parts[-1] else " },")
    return "\n".join([*lines, "}"]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="generate graphlint/knowledge/operators.json")
    parser.add_argument("operators", type=Path, help="measured operators")
    parser.add_argument("facts", type=Path, help="measured expressions")
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    args = parser.parse_args()
    text = render(build(json.loads(args.operators.read_text()), json.loads(args.facts.read_text())))
    if args.check:
        same = TABLE.read_text(encoding="utf-8") == text
        print("up to date" if same else "graphlint/knowledge/operators.json differs from the measurements")
        return 0 if same else 1
    TABLE.write_text(text, encoding="utf-8")
    print(f"wrote {TABLE} ({len(text) // 1024} KiB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
