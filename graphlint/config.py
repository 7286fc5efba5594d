"""What the user asked for: a frozen `Config`, read from the nearest `[tool.graphlint]`, and where each value came from.

Glossary:
    key       a name as it stands in TOML: `per-file-ignores`; the field is the same with underscores.
    origin    where a value came from: "default", a file, "command line", or "user configuration".
    project   the folder of the configuration file; relative paths and globs in it start there.

A project's configuration never names code to run: `rule-folder` is accepted from the user only (command line or
the user's own `~/.config/graphlint/graphlint.toml`), since what is linted must not be executed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from graphlint.config_keys import KEYS, WRAPPER_KEYS, ConfigError, Wrapper, read_table, suggest, user_file
from graphlint.finding import Severity
from graphlint.region import Settings

FILE_NAMES = ("graphlint.toml", ".graphlint.toml", "pyproject.toml")
DEFAULT_EXCLUDE = (
    ".eggs", ".git", ".hg", ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".svn", ".tox", ".venv",
    "__pycache__", "__pypackages__", "build", "dist", "node_modules", "venv",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting. An empty `select` means all rules; rules are named by name or code."""

    root: Path = field(default_factory=Path.cwd)
    file: Path | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    respect_gitignore: bool = True
    src: tuple[str, ...] = (".", "src")
    severity: tuple[tuple[str, Severity], ...] = ()
    torch_version: tuple[int, int] | None = None
    capture_roots: tuple[str, ...] = ()
    capture_context_managers: tuple[str, ...] = ()
    capture_wrappers: tuple[Wrapper, ...] = ()
    capturing_guards: tuple[str, ...] = ()
    not_capturing_guards: tuple[str, ...] = ()
    eager_decorators: tuple[str, ...] = ()
    prefill_names: tuple[str, ...] = Settings().prefill_names
    trusted: tuple[str, ...] = ()
    cpu_names: tuple[str, ...] = ()
    assume_device: str = "unknown"
    python: str | None = None
    require_reason: bool = False
    baseline: str | None = None
    rule_folder: tuple[str, ...] = ()

    @property
    def settings(self) -> Settings:
        """What rules may depend on."""
        return Settings(self.torch_version, self.cpu_names, self.prefill_names, self.trusted)

    def resolve(self, path: str) -> Path:
        """A path of the configuration, which starts at the project's folder."""
        return self.root / os.path.expanduser(path)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A Config and, for each key, where its value came from."""

    config: Config
    origins: Mapping[str, str]


def _parse(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def table_of(path: Path) -> dict[str, Any] | None:
    """graphlint's table of a TOML file, None if it has none (a `pyproject.toml` without `[tool.graphlint]`)."""
    if path.name == "pyproject.toml":
        try:
            if b"graphlint" not in path.read_bytes():
                return None
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    data = _parse(path)
    tool = data.get("tool")
    if isinstance(tool, dict) and isinstance(tool.get("graphlint"), dict):
        found: dict[str, Any] = tool["graphlint"]
        return found
    return None if path.name == "pyproject.toml" else data


def nearest(start: Path, seen: dict[Path, Path | None] | None = None) -> Path | None:
    """The nearest file with a graphlint table, from folder `start` upwards. `seen` remembers folders between calls."""
    seen = {} if seen is None else seen
    way: list[Path] = []
    found: Path | None = None
    for folder in (start, *start.parents):
        if folder in seen:
            found = seen[folder]
            break
        way.append(folder)
        path = next((p for n in FILE_NAMES if (p := folder / n).is_file() and table_of(p) is not None), None)
        if path is not None:
            found = path
            break
    for folder in way:
        seen[folder] = found
    return found


def load(
    start: Path,
    *,
    file: Path | None = None,
    isolated: bool = False,
    overrides: Mapping[str, Any] | None = None,
    pairs: Iterable[str] = (),
    seen: dict[Path, Path | None] | None = None,
) -> Loaded:
    """The Config that holds for folder `start`: defaults, the user's own file, the project's, then the command line.

    file: a configuration file given by the user, instead of the nearest. pairs: `key=value` texts in TOML.
    overrides: fields set on the command line; a None is not set.

    Raises:
        ConfigError: a file that cannot be read, an unknown key or value.
    """
    origins = dict.fromkeys(KEYS, "default")
    values: dict[str, Any] = {}

    def add(new: Mapping[str, Any], origin: str) -> None:
        for name, value in new.items():
            values[name] = value
            origins[name.replace("_", "-")] = origin

    own = user_file()
    if not isolated and own.is_file():
        mine = read_table(table_of(own) or {}, str(own), user=True)
        if "rule_folder" in mine:
            # Never relative to the project: that would let a project supply the code.
            mine["rule_folder"] = tuple(str(own.parent / os.path.expanduser(p)) for p in mine["rule_folder"])
        add(mine, str(own))
    found = None if isolated else file or nearest(start, seen)
    if file is not None and not isolated and not file.is_file():
        raise ConfigError(f"{file}: no such configuration file")
    if found is not None:
        where = f"{found} [tool.graphlint]" if found.name == "pyproject.toml" else str(found)
        add(read_table(table_of(found) or {}, where), str(found))
    for pair in pairs:
        add(read_table(_pair(pair), "command line", user=True), "command line")
    add({k: v for k, v in (overrides or {}).items() if v is not None}, "command line")
    root = Path(os.path.abspath(found.parent if found is not None and found != file else start))
    config = replace(Config(root=root, file=found), **values)
    return Loaded(config, origins)


def _pair(text: str) -> dict[str, Any]:
    key, _, value = text.partition("=")
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(f"{key.strip()} = {value}")
    except tomllib.TOMLDecodeError:
        return {key.strip(): value.strip()}


def check_rule_names(config: Config, known: Mapping[str, str]) -> Config:
    """Turns codes into names everywhere. `known` maps every name and code to the name.

    Raises:
        ConfigError: a rule that does not exist.
    """

    def names(key: str, given: Iterable[str]) -> tuple[str, ...]:
        found: list[str] = []
        for rule in given:
            if rule.lower() == "all":
                found += dict.fromkeys(known.values())
            elif (name := known.get(rule) or known.get(rule.upper()) or known.get(rule.lower())) is not None:
                found.append(name)
            else:
                raise ConfigError(f"`{key}`: unknown rule `{rule}`{suggest(rule, known)}")
        return tuple(dict.fromkeys(found))

    return replace(
        config,
        select=names("select", config.select),
        ignore=names("ignore", config.ignore),
        extend_select=names("extend-select", config.extend_select),
        per_file_ignores=tuple((g, names(f"per-file-ignores.{g}", r)) for g, r in config.per_file_ignores),
        severity=tuple((names("severity", [r])[0], s) for r, s in config.severity),
    )


def selected(config: Config, names: Iterable[str]) -> frozenset[str]:
    """The rules that run: `select` (all if empty) and `extend-select`, less `ignore`. Names, not codes."""
    chosen = set(config.select or names) | set(config.extend_select)
    return frozenset(chosen - set(config.ignore))


def as_toml(config: Config) -> dict[str, object]:
    """Every key with its value as TOML would have it, for `graphlint config` and cache keys."""
    shown: dict[str, object] = {}
    names = {f.name for f in fields(config)}
    for key in KEYS:
        name = key.replace("-", "_")
        assert name in names
        value = getattr(config, name)
        if key == "torch-version":
            value = "any" if value is None else f"{value[0]}.{value[1]}"
        elif key in ("per-file-ignores", "severity"):
            value = {k: list(v) if isinstance(v, tuple) else v for k, v in value}
        elif key == "capture-wrappers":
            value = [{k: getattr(w, k.replace("-", "_")) for k in WRAPPER_KEYS} for w in value]
        elif isinstance(value, tuple):
            value = list(value)
        shown[key] = value
    return shown
