"""Loads rules by folder: the project's own beside or in the package, and a user's by the same call.

A folder of rules holds `glNNN_some_name/rule.py`; each is loaded by its path, never by a dotted name, so that a
checkout, a wheel and a user's folder are one case. A rule's folder is a package of its own: what belongs to a second
idea lies in a module beside `rule.py` and is imported by `from .name import ...`. A broken rule gives one clear line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeAlias, cast

from graphlint.finding import Fix, Problem, Severity
from graphlint.region import Region
from graphlint.rule import Rule

#: What `fix.py` beside a rule holds: the fix of a problem, None if it has none.
Fixer: TypeAlias = Callable[[Problem, Region], "Fix | None"]

_CODE = re.compile(r"[A-Z]{2,5}\d{3}$")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*$")


class RuleError(Exception):
    """A rule that cannot be loaded; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class ToolRule:
    """A finding of the tool's own, which no Region yields."""

    code: str
    name: str
    severity: Severity
    summary: str
    page: str


TOOL_RULES = (
    ToolRule(
        "GL901",
        "unused-suppression",
        "warning",
        "a suppression that silences nothing",
        "The comment silences a rule that reports nothing on its line. Left in place it would hide the next, real\n"
        "finding. `graphlint check --fix` removes it, or the rule that is not needed from its list.",
    ),
    ToolRule(
        "GL902",
        "unreadable-file",
        "error",
        "a file that could not be checked",
        "The file cannot be read, decoded or parsed, or the check itself failed on it. Nothing in it was checked;\n"
        "all other files were. The same line is an entry in `errors` of the JSON output.",
    ),
    ToolRule(
        "GL903",
        "unknown-rule",
        "warning",
        "a suppression that names a rule that does not exist",
        "The comment names a rule that graphlint does not have, so it silences nothing: a typo, or a rule that was\n"
        "renamed. `graphlint rules` lists them all. `graphlint check --fix` removes the name.",
    ),
    ToolRule(
        "GL904",
        "missing-reason",
        "warning",
        "a suppression without a reason, where `require-reason` is set",
        "`require-reason = true` asks that every suppression says why:\n"
        "`# graphlint: ignore[host-sync] read once, before the first replay`.",
    ),
)


@dataclass(frozen=True)
class Registry:
    """All rules, by name and by code."""

    rules: tuple[Rule, ...]

    @property
    def every(self) -> tuple[Rule | ToolRule, ...]:
        """All rules, the tool's own last."""
        return (*self.rules, *TOOL_RULES)

    @cached_property
    def known(self) -> Mapping[str, str]:
        """Every name and code -> the name, the tool's own included."""
        table: dict[str, str] = {}
        for rule in self.every:
            table[rule.name] = table[rule.code] = rule.name
        return table

    @cached_property
    def by_name(self) -> Mapping[str, Rule | ToolRule]:
        return {rule.name: rule for rule in self.every}

    def find(self, word: str) -> Rule | ToolRule | None:
        """A rule by name or code, whatever the case, None if there is none."""
        name = self.known.get(word) or self.known.get(word.upper()) or self.known.get(word.lower())
        return self.by_name[name] if name is not None else None


def own_folder() -> Path:
    """`graphlint/rules` where it is installed, else `rules` beside the package in a checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "rules"
    return inside if inside.is_dir() else package.parent / "rules"


def folders(root: Path) -> Iterator[Path]:
    """The rule folders in `root`, by name. `root` may be a rule's folder itself."""
    if (root / "rule.py").is_file():
        yield root
        return
    for folder in sorted(root.iterdir()):
        if (folder / "rule.py").is_file():
            yield folder


def load_folder(folder: Path) -> list[Rule]:
    """The rules that `folder/rule.py` makes with `@rule`.

    Raises:
        RuleError: it cannot be imported, makes no rule, or one with a malformed code or name.
    """
    path = folder / "rule.py"
    _forget(folder)
    found = [replace(v, folder=folder) for v in vars(_module(path)).values() if isinstance(v, Rule)]
    if not found:
        raise RuleError(f"{path}: makes no rule; a rule is a generator function under `@rule(code, name, ...)`")
    for rule in found:
        if not _CODE.match(rule.code) or not _NAME.match(rule.name):
            raise RuleError(f"{path}: `{rule.code}[{rule.name}]` is not a code such as GL001 and a kebab-case name")
    return found


@cache
def fixer(folder: Path | None) -> Fixer | None:
    """The function `fix` of `folder/fix.py`, None if there is none. It is loaded when a rule first reports.

    Raises:
        RuleError: the file cannot be imported.
    """
    if folder is None or not (folder / "fix.py").is_file():
        return None
    found = getattr(_module(folder / "fix.py"), "fix", None)
    if not callable(found):
        raise RuleError(f"{folder / 'fix.py'}: has no function `fix(problem, region)`")
    return cast(Fixer, found)


def _package(folder: Path) -> str:
    """The name that a rule's folder has among the loaded modules."""
    return "graphlint_rule_" + re.sub(r"\W", "_", str(folder.resolve()))


def _forget(folder: Path) -> None:
    """A rule that is loaded again reads the modules beside it again."""
    name = _package(folder)
    for loaded in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
        del sys.modules[loaded]


def _module(path: Path) -> ModuleType:
    """The module in a file of a rule's folder, loaded by its path."""
    name = _package(path.parent)
    if name not in sys.modules:
        package = ModuleType(name)
        package.__path__ = [str(path.parent)]
        sys.modules[name] = package
    module_name = f"{name}.{path.stem}"
    spec = spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise RuleError(f"{path}: cannot be loaded")
    module = module_from_spec(spec)
    # Dataclasses and get_type_hints in a rule look their module up by name.
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        line = f": line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        text = (str(error).splitlines() or [""])[0]
        raise RuleError(f"{path}{line}: {type(error).__name__}: {text}") from error
    return module


def load_rules(extra: Sequence[Path] = (), own: Path | None = None) -> Registry:
    """The registry of the project's own rules and those in `extra` folders, in order of code.

    Raises:
        RuleError: a folder is missing, a rule is broken, or a code or name is used twice.
    """
    rules: list[Rule] = []
    own = own or own_folder()
    for root in ([own] if own.is_dir() else []) + list(extra):
        if not root.is_dir():
            raise RuleError(f"{root}: no such rule folder")
        found = [rule for folder in folders(root) for rule in load_folder(folder)]
        if not found and root is not own:
            raise RuleError(f"{root}: holds no rule folder, that is, no NAME/rule.py")
        rules += found
    _check_unique([*rules, *TOOL_RULES])
    return Registry(tuple(sorted(rules, key=lambda r: r.code)))


def _check_unique(rules: Iterable[Rule | ToolRule]) -> None:
    seen: dict[str, Rule | ToolRule] = {}
    for rule in rules:
        for word in (rule.code, rule.name):
            if word in seen:
                where = [str(r.folder) if isinstance(r, Rule) else "graphlint itself" for r in (seen[word], rule)]
                raise RuleError(f"`{word}` is used by two rules: {where[0]} and {where[1]}")
            seen[word] = rule


def page(rule: Rule | ToolRule) -> str:
    """The rule's page as Markdown, with what `rules` says of it on top if it has no page."""
    if isinstance(rule, Rule) and rule.page:
        return rule.page
    body = f"\n{rule.page}\n" if rule.page else ""
    return f"# {rule.code} {rule.name}\n\n{rule.summary} ({rule.severity})\n{body}"
