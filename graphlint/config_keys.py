"""The keys of a configuration: how each value is read, and what is said of one that is wrong."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphlint.finding import SEVERITIES, Severity


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


WRAPPER_KEYS = ("name", "argument", "copies-inputs", "clones-outputs", "warm-up")


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
            if name not in WRAPPER_KEYS:
                raise ConfigError(f"`{key}`: unknown key `{name}`{suggest(name, WRAPPER_KEYS)}")
        argument = entry.get("argument", 0)
        if isinstance(argument, bool) or not isinstance(argument, (int, str)):
            raise ConfigError(f"`{key}`: `argument` is a position from 0 or a name")
        flags = {n.replace("-", "_"): _boolean(f"{key}.{n}", entry[n]) for n in WRAPPER_KEYS[2:] if n in entry}
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


def user_file() -> Path:
    """The user's own configuration: `graphlint/graphlint.toml` in the configuration folder of the platform."""
    if sys.platform == "win32":
        base = os.environ.get("APPDATA") or str(Path.home() / "AppData" / "Roaming")
    else:
        base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base, "graphlint", "graphlint.toml")
