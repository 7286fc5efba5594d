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
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from graphlint.finding import SEVERITIES, Severity
from graphlint.region import Settings

FILE_NAMES = ("graphlint.toml", ".graphlint.toml", "pyproject.toml")
DEFAULT_EXCLUDE = (
    ".eggs", ".git", ".hg", ".mypy_cache", ".nox", ".pytest_cache", ".ruff_cache", ".svn", ".tox", ".venv",
    "__pycache__", "__pypackages__", "build", "dist", "node_modules", "venv",
)  # fmt: skip


class ConfigError(Exception):
    """A configuration that cannot be used; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A callable that captures what it is given: `argument` is the position or the name of the captured callable.

    copies_inputs: a call copies its arguments into static inputs. clones_outputs: what a call returns is a copy.
    warm_up: it runs the callable before it captures.
    """

    name: str
    argument: int | str = 0
    copies_inputs: bool = False
    clones_outputs: bool = False
    warm_up: bool = False


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


# ---------------------------------------------------------------------------------------------- reading values


def _strings(key: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"`{key}` must be a list of strings")
    return tuple(value)


def _string(key: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"`{key}` must be a string that is not empty")
    return value


def _boolean(key: str, value: object) -> bool:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise ConfigError(f"`{key}` must be true or false")
    return value


def _choice(*choices: str) -> Callable[[str, object], str]:
    def read(key: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ConfigError(f"`{key}` is {value!r}, it must be one of {', '.join(choices)}{suggest(value, choices)}")
        return value

    return read


def read_version(key: str, value: object) -> tuple[int, int] | None:
    """ "2.11" -> (2, 11); "any" -> None.

    Raises:
        ConfigError: it is not a version.
    """
    if value == "any":
        return None
    match = re.match(r"(\d+)\.(\d+)(?:[.+].*)?$", value) if isinstance(value, str) else None
    if match is None:
        raise ConfigError(f'`{key}` is {value!r}, it must be a version such as "2.11", or "any"')
    return int(match[1]), int(match[2])


def _globs(key: str, value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, dict):
        raise ConfigError(f"`{key}` must be a table of pattern = [rules]")
    return tuple((pattern, _strings(f"{key}.{pattern}", rules)) for pattern, rules in value.items())


def _severities(key: str, value: object) -> tuple[tuple[str, Severity], ...]:
    if not isinstance(value, dict):
        raise ConfigError(f"`{key}` must be a table of rule = severity")
    read = _choice(*SEVERITIES)
    return tuple((rule, read(f"{key}.{rule}", level)) for rule, level in value.items())  # type: ignore[misc]


_WRAPPER_KEYS = ("name", "argument", "copies-inputs", "clones-outputs", "warm-up")


def _wrappers(key: str, value: object) -> tuple[Wrapper, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list):
        raise ConfigError(f"`{key}` must be a list of names or of tables such as {{ name = 'pkg.Runner' }}")
    found = []
    for item in value:
        entry = {"name": item} if isinstance(item, str) else item
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise ConfigError(f"`{key}`: each entry is a name or a table with a `name`")
        for name in entry:
            if name not in _WRAPPER_KEYS:
                raise ConfigError(f"`{key}`: unknown key `{name}`{suggest(name, _WRAPPER_KEYS)}")
        argument = entry.get("argument", 0)
        if isinstance(argument, bool) or not isinstance(argument, (int, str)):
            raise ConfigError(f"`{key}`: `argument` is a position from 0 or a name")
        flags = {n.replace("-", "_"): _boolean(f"{key}.{n}", entry[n]) for n in _WRAPPER_KEYS[2:] if n in entry}
        found.append(Wrapper(entry["name"], argument, **flags))
    return tuple(found)


_READERS: dict[str, Callable[[str, object], Any]] = {
    "select": _strings,
    "ignore": _strings,
    "extend-select": _strings,
    "per-file-ignores": _globs,
    "exclude": _strings,
    "extend-exclude": _strings,
    "force-exclude": _boolean,
    "respect-gitignore": _boolean,
    "src": _strings,
    "severity": _severities,
    "torch-version": read_version,
    "capture-roots": _strings,
    "capture-context-managers": _strings,
    "capture-wrappers": _wrappers,
    "capturing-guards": _strings,
    "not-capturing-guards": _strings,
    "eager-decorators": _strings,
    "prefill-names": _strings,
    "trusted": _strings,
    "cpu-names": _strings,
    "assume-device": _choice("unknown", "cuda", "cpu"),
    "python": _string,
    "require-reason": _boolean,
    "baseline": _string,
    "rule-folder": _strings,
}
KEYS = tuple(_READERS)
_RULE_KEYS = ("select", "ignore", "extend-select")


def suggest(word: object, known: Iterable[str]) -> str:
    """`, did you mean ...?` if something known is close, else ""."""
    from difflib import get_close_matches

    close = get_close_matches(str(word), list(known), 1, 0.6)
    return f", did you mean `{close[0]}`?" if close else ""


def read_table(table: Mapping[str, object], where: str, *, user: bool = False) -> dict[str, Any]:
    """The fields that a TOML table sets.

    Raises:
        ConfigError: an unknown key or value, or a rule folder named by a project.
    """
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _READERS:
            other = key.replace("_", "-")
            hint = f", did you mean `{other}`?" if other in _READERS else suggest(key, KEYS)
            raise ConfigError(f"{where}: unknown key `{key}`{hint}")
        if key == "rule-folder" and not user:
            raise ConfigError(
                f"{where}: `rule-folder` names code to run, so it is accepted on the command line or in your own "
                f"configuration ({user_file()}), never from a project"
            )
        try:
            values[key.replace("-", "_")] = _READERS[key](key, value)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None
    return values


# ------------------------------------------------------------------------------------------------ finding files


def user_file() -> Path:
    """The user's own configuration: `graphlint/graphlint.toml` in the configuration folder of the platform."""
    if sys.platform == "win32":
        base = os.environ.get("APPDATA") or str(Path.home() / "AppData" / "Roaming")
    else:
        base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base, "graphlint", "graphlint.toml")


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
            value = [{k: getattr(w, k.replace("-", "_")) for k in _WRAPPER_KEYS} for w in value]
        elif isinstance(value, tuple):
            value = list(value)
        shown[key] = value
    return shown
