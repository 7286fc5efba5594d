"""What the project promises of itself: layers, rules, the wheel, knowledge of error texts."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import graphlint
from graphlint.knowledge.errors import ERRORS, look_up
from graphlint.registry import TOOL_RULES, RuleError, load_folder, load_rules
from tests.helpers import RULE, environment, rule_folder

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "graphlint"
REGISTRY = load_rules()

#: From the bottom up; a module imports from its own layer and below. Names are modules or packages of graphlint.
LAYERS = (
    ("source",),
    ("finding", "value"),
    ("knowledge",),
    ("fact",),
    ("region",),
    (
        "rule",
        "queries",
        "histories",
        "arguments",
        "batches",
        "doubt",
        "places",
        "cuda_streams",
        "edits",
        "device_number",
        "other_threads",
    ),
    ("config", "config_keys", "notebooks"),
    ("lower",),
    ("program",),
    ("interp",),
    ("registry", "suppress", "syntax", "trail", "parallel"),
    ("noting",),
    ("scope", "fix"),
    ("engine", "baseline", "selection", "sealed", "signature"),
    ("runs",),
    ("driver",),
    ("cache",),
    ("report",),
    ("runtime", "lsp"),
    ("cli", "commands", "pytest_plugin", "__main__"),
)


def layer(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


def part(path: Path) -> str:
    """A module's part of graphlint; whatever is run as a program is a front door."""
    if path.name == "__main__.py":
        return "__main__"
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> list[tuple[str, int]]:
    """Parts of graphlint that a module needs when it is imported: not under TYPE_CHECKING, not inside a function."""
    found: list[tuple[str, int]] = []

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.ImportFrom) and child.module and child.module.split(".")[0] == "graphlint":
                dotted = child.module.split(".")
                names = [dotted[1]] if len(dotted) > 1 else [alias.name for alias in child.names]
                found.extend((n, child.lineno) for n in names if not n.startswith("__version"))
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


def test_every_module_has_a_layer() -> None:
    parts = {part(path) for path in PACKAGE.rglob("*.py") if path.name != "__init__.py" or path.parent != PACKAGE}
    assert parts - {name for names in LAYERS for name in names} == set()


def test_layers_point_downwards() -> None:
    upward = []
    for path in PACKAGE.rglob("*.py"):
        if path.parent == PACKAGE and path.name == "__init__.py":
            continue
        for name, line in imports(path):
            if layer(name) > layer(part(path)):
                upward.append(f"{path.relative_to(ROOT)}:{line} imports {name}")
    assert upward == []


def modules(folder: Path) -> list[Path]:
    """The check of a rule and what lies beside it: all but its examples."""
    return [path for path in sorted(folder.glob("*.py")) if not path.name.startswith(("bad_", "good_"))]


def test_rules_import_no_front_door() -> None:
    above = []
    for path in (path for folder in (ROOT / "rules").glob("gl*") for path in modules(folder)):
        above += [f"{path}:{line} imports {name}" for name, line in imports(path) if layer(name) > layer("interp")]
    assert above == []


def test_torch_is_imported_in_the_runtime_only() -> None:
    for path in PACKAGE.rglob("*.py"):
        if "runtime" in path.parts or path.name == "pytest_plugin.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.partition(".")[0] == "torch" for name in names), path


def test_the_linter_leaves_torch_and_numpy_out() -> None:
    code = (
        "import sys, graphlint.cli, graphlint.engine, graphlint.interp, graphlint.commands.check, graphlint.registry\n"
    )
    code += (
        "graphlint.registry.load_rules(); print([m for m in ('torch', 'numpy', 'rich', 'msgspec') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout == "[]\n", run.stderr


# --------------------------------------------------------------------------------------------------------- rules


def test_codes_have_no_gaps_and_folders_agree() -> None:
    own = [rule for rule in REGISTRY.rules if rule.code < "GL900"]
    assert [rule.code for rule in own] == [f"GL{n:03d}" for n in range(1, len(own) + 1)]
    for rule in own:
        assert rule.folder is not None and rule.folder.name == f"{rule.code.lower()}_{rule.name.replace('-', '_')}"
    assert [rule.code for rule in TOOL_RULES] == [f"GL{n}" for n in range(901, 901 + len(TOOL_RULES))]
    folders = {f.name for f in (ROOT / "rules").iterdir() if f.name.startswith("gl")}
    assert folders == {rule.folder.name for rule in own if rule.folder is not None}, "a folder without a rule"


HEADINGS = ["What it finds", "Why it breaks", "Do this instead", "What is fine", "How it was measured"]


@pytest.mark.parametrize("rule", REGISTRY.rules, ids=lambda rule: rule.name)
def test_a_rule_has_a_page_and_examples(rule: graphlint.rule.Rule) -> None:  # type: ignore[name-defined]
    assert rule.page.startswith(f"# {rule.code} {rule.name}\n")
    assert re.findall(r"^## (.+)$", rule.page, re.M) == HEADINGS
    assert 0 < len(rule.summary) < 120 and "\n" not in rule.summary and not rule.summary.endswith(".")
    assert rule.folder is not None
    assert len(list(rule.folder.glob("bad_*"))) >= 3 and len(list(rule.folder.glob("good_*"))) >= 3


def test_a_rule_folder_of_the_user_is_loaded_beside(tmp_path: Path) -> None:
    registry = load_rules([rule_folder(tmp_path)])
    found = registry.find("usr001")
    assert found is not None and found.name == "host-read" and found in registry.rules


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def check(:\n", "line 1: SyntaxError"),
        ("import nothing_such\n", "ModuleNotFoundError: No module named 'nothing_such'"),
        ("x = 1\n", "makes no rule"),
        (RULE.replace("USR001", "usr1"), "is not a code"),
        (RULE.replace("host-read", "HostRead"), "kebab-case"),
        (RULE.replace("USR001", "GL902"), "`GL902` is used by two rules"),
        (RULE.replace("host-read", "unused-suppression"), "`unused-suppression` is used by two rules"),
        ("raise SystemError('a\\nb')\n", "SystemError: a"),
    ],
)
def test_a_broken_rule_is_one_clear_line(tmp_path: Path, text: str, said: str) -> None:
    folder = rule_folder(tmp_path, text)
    with pytest.raises(RuleError) as error:
        load_rules([folder])
    assert said in str(error.value) and "\n" not in str(error.value) and str(folder) in str(error.value)


def test_a_rule_may_have_a_dataclass_of_its_own(tmp_path: Path) -> None:
    text = RULE + "\n\nfrom __future__ import annotations\n".replace("from __future__ import annotations\n", "")
    text = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n\n@dataclass\nclass A:\n    x: int\n"
        + text
    )
    assert load_folder(rule_folder(tmp_path, text) / "usr001_host_read")[0].name == "host-read"


def test_a_rule_may_have_modules_beside_it(tmp_path: Path) -> None:
    text = "from .words import NAME\n" + RULE.replace('"host-read"', "NAME")
    folder = rule_folder(tmp_path, text) / "usr001_host_read"
    for name in ("first-name", "another-name"):
        (folder / "words.py").write_text(f"NAME = {name!r}\n", encoding="utf-8")
        assert load_folder(folder)[0].name == name, "read anew each time"
    (folder / "words.py").unlink()
    with pytest.raises(RuleError, match=r"rule.py: ModuleNotFoundError: No module named '.*\.words'"):
        load_folder(folder)


# --------------------------------------------------------------------------------------------------- error texts


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.text[:40])
def test_an_error_text_leads_to_its_rules(error: graphlint.knowledge.errors.ErrorText) -> None:
    missing = [name for name in error.rules if REGISTRY.find(name) is None]
    assert missing == []
    for text in (error.text, *error.codes):
        wrapped = "\n  ".join(re.findall(r"\S+\s*", text))
        pasted = (
            'Traceback (most recent call last):\n  File "train.py", line 12, in <module>\n    loss.item()\n'
            f"RuntimeError: CUDA error: {wrapped}\n"
            "CUDA kernel errors might be asynchronously reported at some other API call.\n"
            "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
        )
        for given in (text, text.upper(), wrapped, pasted):
            assert set(error.rules) <= {name for found in look_up(given) for name in found.rules}, given


def test_the_first_error_of_a_traceback_comes_first() -> None:
    text = (
        "RuntimeError: CUDA error: operation failed due to a previous error during capture\n\nDuring handling ...\n"
        "torch.AcceleratorError: CUDA error: operation not permitted when stream is capturing\n"
    )
    found = look_up(text)
    assert [e.second for e in found] == [False, True]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("The size of tensor a (512) must match the size of tensor b (7) at non-singleton dimension 0",
         "shape-mismatch-copy"),
        ("CUDA graph replay detected 2 dead tensor(s).", "dangling-input"),
        ("AssertionError: If capturable=True, params and state_steps must be on supported devices: ['cuda']",
         "optimizer-in-capture"),
        ("Cannot call CUDAGeneratorImpl::current_seed during CUDA graph capture. If you need this call to be captured, "
         "please file an issue.", "rng-misuse"),
        ("RuntimeError: Capturing cudnnFind is prohibited. Possible causes of this error:\n"
         "1. No warmup iterations occurred before capture.", "missing-warmup"),
        ("skipping cudagraphs due to mutated inputs (2 instances). Found from", "compile-cudagraphs"),
        ("CUDA error: operation would make the legacy stream depend on a capturing blocking stream", "missing-warmup"),
        ("KeyError: 'capturable'", "optimizer-in-capture"),
    ],
)  # fmt: skip
def test_error_texts_as_torch_prints_them(text: str, rule: str) -> None:
    assert rule in [name for found in look_up(text) for name in found.rules]


@pytest.mark.parametrize("text", ["", "KeyError: 'x'", "out of memory", "12 34", "error", "CUDA error"])
def test_other_texts_lead_nowhere(text: str) -> None:
    assert look_up(text) == []


# --------------------------------------------------------------------------------------------------------- wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    source = folder / "source"
    for name in listed:
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(source)]
    made = subprocess.run(command, capture_output=True, text=True, env=environment(folder), timeout=300)
    assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_what_is_needed_and_nothing_else(wheel: Path) -> None:
    assert wheel.name == f"torch_graphlint-{graphlint.__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.partition("/")[0] for name in names}
    info = f"torch_graphlint-{graphlint.__version__}.dist-info"
    assert tops == {"graphlint", "_torch_graphlint_entry.py", info}
    for path in PACKAGE.rglob("*"):
        if path.suffix in (".py", ".typed", ".json") and "__pycache__" not in path.parts:
            assert f"graphlint/{path.relative_to(PACKAGE).as_posix()}" in names, path
    for rule in REGISTRY.rules:
        assert rule.folder is not None
        for name in ("README.md", *(path.name for path in modules(rule.folder))):
            assert f"graphlint/rules/{rule.folder.name}/{name}" in names
    assert f"{info}/licenses/LICENSE" in names
    entry = zipfile.ZipFile(wheel).read(f"{info}/entry_points.txt").decode()
    assert (
        "\ngraphlint = _torch_graphlint_entry:main" in entry
        and "torch-graphlint = _torch_graphlint_entry:main" in entry
    )
    metadata = zipfile.ZipFile(wheel).read(f"{info}/METADATA").decode()
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert required and not any("torch" in line.partition(":")[2] for line in required)


def test_the_wheel_runs_from_elsewhere(wheel: Path, tmp_path: Path) -> None:
    """Unpacked and alone on the path, it finds its own rules."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); import graphlint.registry as r; "
    code += "print(r.own_folder()); print(len(r.load_rules().rules))"
    run = subprocess.run([sys.executable, "-P" if sys.version_info >= (3, 11) else "-s", "-c", code],
                         capture_output=True, text=True, cwd=tmp_path)  # fmt: skip
    assert run.stdout.split() == [str(tmp_path / "site" / "graphlint" / "rules"), str(len(REGISTRY.rules))], run.stderr


def test_the_version_is_the_same_everywhere() -> None:
    assert f'version = "{graphlint.__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_whatever_owns_a_place_has_a_number_of_its_own() -> None:
    """Rules tell places apart by owner and name: a scope and an object must never share a number."""
    from graphlint.interp.objects import Scope
    from graphlint.value import Instance, Mapping, Sequence, Storage

    made = [Storage(), Instance(), Scope(None), Mapping(), Sequence(), Scope(None), Instance()]  # type: ignore[arg-type]
    assert len({one.id for one in made}) == len(made)
