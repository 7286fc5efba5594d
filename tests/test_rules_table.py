"""rules/README.md: its table is generated, and the pages it is made of begin as promised."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_rules_table", ROOT / "scripts" / "generate_rules_table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_table_is_up_to_date(generator: ModuleType) -> None:
    assert generator.main(["--check"]) == 0, "run `python scripts/generate_rules_table.py`"


def test_every_rule_folder_has_a_row(generator: ModuleType) -> None:
    text = generator.PAGE.read_text(encoding="utf-8")
    missing = [f.name for f in sorted((ROOT / "rules").glob("gl*")) if f"]({f.name}/README.md)" not in text]
    assert missing == []


def test_heading_agrees_with_the_folder(generator: ModuleType) -> None:
    for page in sorted((ROOT / "rules").glob("gl*/README.md")):
        code, name, sentence = generator.heading(page)
        assert page.parent.name == f"{code.lower()}_{name.replace('-', '_')}"
        assert sentence, page


def test_renew_replaces_only_the_table(generator: ModuleType) -> None:
    page = f"before\n{generator.BEGIN}\nold\n{generator.END}\nafter\n"
    assert generator.renew(page, "new") == f"before\n{generator.BEGIN}\nnew\n{generator.END}\nafter\n"
    with pytest.raises(ValueError, match="lacks"):
        generator.renew("no markers", "new")


def test_a_page_without_a_heading_is_refused(generator: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text("GL001 host-sync\n", encoding="utf-8")
    with pytest.raises(ValueError, match="does not begin"):
        generator.heading(page)
