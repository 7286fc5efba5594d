"""Where configuration comes from, what it may say, and how it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint.config import Config, as_toml, check_rule_names, load, selected
from graphlint.config_keys import ConfigError, Wrapper, user_file

KNOWN = {"host-sync": "host-sync", "GL001": "host-sync", "stale-input": "stale-input", "GL009": "stale-input"}


@pytest.fixture(autouse=True)
def no_user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))


def project(tmp_path: Path, text: str, name: str = "pyproject.toml") -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path


def test_every_key_is_read_and_shown(tmp_path: Path) -> None:
    text = """
[tool.graphlint]
select = ["GL001"]
ignore = ["stale-input"]
extend-select = ["GL009"]
exclude = ["a"]
extend-exclude = ["b"]
force-exclude = true
respect-gitignore = false
src = ["lib"]
torch-version = "2.11.0+cu128"
capture-roots = ["m.run"]
capture-context-managers = ["m.capture"]
capture-wrappers = ["m.Graphed", { name = "m.Runner", argument = "fn", copies-inputs = true, warm-up = true }]
capturing-guards = ["m.is_capturing"]
not-capturing-guards = ["m.eager"]
eager-decorators = ["m.host"]
prefill-names = ["prompt"]
trusted = ["m.safe"]
cpu-names = ["cpu_ids"]
assume-device = "cuda"
python = ".venv"
require-reason = true
baseline = "base.json"
[tool.graphlint.per-file-ignores]
"tests/**" = ["GL001"]
[tool.graphlint.severity]
GL001 = "note"
"""
    loaded = load(project(tmp_path, text))
    config = loaded.config
    assert config.torch_version == (2, 11)
    assert config.capture_wrappers == (
        Wrapper("m.Graphed"),
        Wrapper("m.Runner", "fn", copies_inputs=True, warm_up=True),
    )
    assert (config.root, config.file) == (tmp_path, tmp_path / "pyproject.toml")
    shown = as_toml(check_rule_names(config, KNOWN))
    assert shown["per-file-ignores"] == {"tests/**": ["host-sync"]} and shown["severity"] == {"host-sync": "note"}
    assert {k for k, v in loaded.origins.items() if v == "default"} == {"rule-folder"}
    defaults = as_toml(Config())
    assert [k for k in shown if k != "rule-folder" and shown[k] == defaults[k]] == []


def test_the_nearest_table_wins_and_a_pyproject_without_one_is_passed_over(tmp_path: Path) -> None:
    project(tmp_path, '[tool.graphlint]\ntorch-version = "2.12"\n')
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    project(inner, "[tool.other]\n")
    assert load(inner).config.root == tmp_path
    project(tmp_path / "a", 'torch-version = "2.14"\n', "graphlint.toml")
    assert load(inner).config.torch_version == (2, 14)
    assert load(inner, isolated=True).config.torch_version is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("slect = []", "unknown key `slect`, did you mean `select`?"),
        ("torch_version = '2.11'", "did you mean `torch-version`?"),
        ("select = 3", "`select` must be a list of strings"),
        ("torch-version = 'new'", "must be a version"),
        ("assume-device = 'cudda'", "did you mean `cuda`?"),
        ("force-exclude = 1", "must be true or false"),
        ("capture-wrappers = [{ name = 'm', copy-inputs = true }]", "did you mean `copies-inputs`?"),
        ("capture-wrappers = [{ argument = 1 }]", "a table with a `name`"),
        ("severity = { GL001 = 'fatal' }", "it must be one of error, warning, note"),
        ("per-file-ignores = ['a']", "must be a table"),
        ("a = = b", "not valid TOML"),
    ],
)
def test_unknown_keys_and_values_are_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(project(tmp_path, text + "\n", "graphlint.toml"))
    assert said in str(error.value) and "graphlint.toml" in str(error.value)


@pytest.mark.parametrize(("rule", "said"), [("host-snyc", "did you mean `host-sync`?"), ("GL099", "unknown rule")])
def test_unknown_rules_are_refused(tmp_path: Path, rule: str, said: str) -> None:
    config = load(project(tmp_path, f"select = ['{rule}']\n", "graphlint.toml")).config
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")):
        check_rule_names(config, KNOWN)


def test_names_and_codes_select_alike() -> None:
    for spelled in ("GL001", "gl001", "host-sync", "Host-Sync"):
        assert selected(check_rule_names(Config(select=(spelled,)), KNOWN), ["host-sync"]) == {"host-sync"}
    config = check_rule_names(Config(select=("all",), ignore=("GL009",)), KNOWN)
    assert selected(config, KNOWN.values()) == {"host-sync"}


def test_a_project_cannot_name_code_to_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="never from a project"):
        load(project(tmp_path, "rule-folder = ['evil']\n", "graphlint.toml"))


def test_the_user_can_and_never_relative_to_the_project(tmp_path: Path) -> None:
    own = user_file()
    own.parent.mkdir(parents=True)
    own.write_text("rule-folder = ['mine']\n")
    loaded = load(tmp_path)
    assert loaded.config.rule_folder == (str(own.parent / "mine"),)
    assert loaded.origins["rule-folder"] == str(own)


def test_the_command_line_wins(tmp_path: Path) -> None:
    project(tmp_path, "select = ['GL001']\nignore = ['GL009']\n", "graphlint.toml")
    loaded = load(tmp_path, overrides={"select": ("GL009",), "ignore": None}, pairs=["torch-version='2.13'", "src=lib"])
    assert (loaded.config.select, loaded.config.ignore) == (("GL009",), ("GL009",))
    assert (loaded.config.torch_version, loaded.config.src) == ((2, 13), ("lib",))
    assert loaded.origins["select"] == "command line"
