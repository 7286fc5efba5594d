"""Modules and programs: what stands where, what a name means, which file a dotted name is."""

from __future__ import annotations

import ast
import random
import sysconfig
from pathlib import Path

import pytest

from graphlint.lower import tree
from graphlint.program import index, index_tree
from graphlint.program.environment import find_site_packages
from graphlint.program.module import Module
from graphlint.program.program import Program
from graphlint.source import Source, SourceError
from tests import shapes

STDLIB = Path(sysconfig.get_path("stdlib"))


def module(text: str, name: str = "example") -> Module:
    return Module(Path(f"{name}.py"), name, Source(Path(f"{name}.py"), text), True)


def write(root: Path, files: dict[str, str]) -> list[Path]:
    paths = []
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        paths.append(path)
    return paths


def program(root: Path, files: dict[str, str], roots: tuple[str, ...] = (".",), site: Path | None = None) -> Program:
    return Program(write(root, files), [root / r for r in roots], site)


def target(made: Program, path: Path, name: str) -> str | None:
    """`module:name` or an external dotted name."""
    importer = made.module(path)
    assert importer is not None
    found = made.import_target(importer, name)
    return f"{found[0].name}:{found[1]}" if isinstance(found, tuple) else found


# ------------------------------------------------------------------------------------------------ one module

TEXT = '''\
import os, a.b as c, d.e
from .f import g, h as i
from j import *
if TYPE_CHECKING:
    from k import L
else:
    L = None
try:
    import fast as impl
except ImportError:
    impl = None

@deco(1)
def outer(x: int, *, y=2) -> str:
    """doc"""
    def inner():
        yield 1
    return inner

class C(Base, metaclass=M):
    attr = 1; other = 2
    def method(self): return outer(self)
    @property
    def value(self):
        return 1
    @value.setter
    def value(self, new): pass
    if FLAG:
        def late(self): pass

for n, (o, *p) in pairs:
    q = r = s, t[0], u.v = 1
with open("x") as w: X = outer(1); Y = X.outer()
z: int
__all__ = ["outer", "C"]
__all__ += ["X"]
'''


def test_bindings_are_found_without_lowering_the_file() -> None:
    made = module(TEXT)
    assert made.names() == {*"cdgiLCnopqrswXYz", "os", "impl", "outer", "__all__"}
    assert [type(s).__name__ for s in made.bindings("impl")] == ["Import", "Assign"]
    assert [type(s).__name__ for s in made.bindings("L")] == ["ImportFrom", "Assign"]
    assert isinstance(made.bindings("o")[0], tree.For) and isinstance(made.bindings("w")[0], tree.With)
    (assign,) = made.bindings("Y")
    assert isinstance(assign, tree.Assign) and isinstance(assign.targets[0], tree.Name) and assign.targets[0].id == "Y"
    assert made.bindings("C") == (made.definition("C"),)
    assert made.bindings("t") == () and made.bindings("attr") == ()
    assert [s.module for s in made.star_imports()] == ["j"]
    assert made.dunder_all() == ("outer", "C", "X")
    assert module("__all__ = [*x]").dunder_all() is None and module("a = 1").dunder_all() is None


def test_definitions_are_one_object_each() -> None:
    made = module(TEXT)
    outer, inner = made.definition("outer"), made.definition("outer.inner")
    assert isinstance(outer, tree.Function) and isinstance(inner, tree.Function)
    assert outer.body[1] is inner and inner.is_generator and not outer.is_generator
    assert inner in outer.body and outer in made.body()
    cls = made.definition("C")
    assert isinstance(cls, tree.Class)
    assert made.definition("C.method") in cls.body
    late = next(s for s in cls.body if isinstance(s, tree.If)).body[0]
    assert late is made.definition("C.late")
    assert [d.qualname for d in made.definitions()] == [
        "outer", "outer.inner", "C", "C.method", "C.value", "C.value", "C.late",
    ]  # fmt: skip
    assert made.definition("nothing") is None


def test_of_a_property_the_getter_is_meant() -> None:
    value = module(TEXT).definition("C.value")
    assert isinstance(value, tree.Function) and [p.name for p in value.params] == ["self"]


def test_stub_has_its_header_before_anything_is_lowered() -> None:
    made = module(TEXT)
    outer = made.definition("outer")
    assert isinstance(outer, tree.Function) and outer._head is None and outer._body is None
    assert (outer.span.line, outer.span.column, outer.span.end_line, outer.span.end_column) == (14, 1, 14, 34)
    assert outer.lines == (13, 18)
    assert [(p.name, p.kind) for p in outer.params] == [("x", "positional"), ("y", "keyword-only")]
    assert isinstance(outer.decorators[0], tree.Call) and isinstance(outer.returns, tree.Name)
    assert outer._body is None
    cls = made.definition("C")
    assert isinstance(cls, tree.Class) and [type(b).__name__ for b in cls.bases] == ["Name"]
    assert [k.keyword for k in cls.keywords] == ["metaclass"]


@pytest.mark.parametrize(
    ("header", "end"),
    [
        ("def f(): pass", 9),
        ("def f ( ) : pass", 12),
        ("async  def f(a, /, b=(1, 2), *, c: 'x:y' = {1: 2}) -> Dict[str, int]: pass", 70),
        ("class A: pass", 9),
        ("class A(): pass", 11),
        ("class A((B), *C, d=(e)): pass", 25),
        ("def f(a=lambda: 0): pass", 20),
    ],
)
def test_header_ends_at_its_colon(header: str, end: int) -> None:
    (definition,) = module(header + "\n").definitions()
    assert (definition.span.column, definition.span.end_column) == (1, end)
    assert isinstance(definition.body[0], tree.Pass)


def test_enclosing() -> None:
    made = module(TEXT)
    names = {line: getattr(made.enclosing(line), "qualname", None) for line in (1, 13, 14, 17, 18, 19, 20, 22, 23, 29)}
    assert names == {
        1: None, 13: "outer", 14: "outer", 17: "outer.inner", 18: "outer", 19: None, 20: "C", 22: "C.method",
        23: "C.value", 29: "C.late",
    }  # fmt: skip
    assert [d.qualname for d in made.enclosing_chain(17)] == ["outer", "outer.inner"]
    assert made.enclosing_chain(2) == ()


def test_calls() -> None:
    made = module(TEXT)
    assert [(s.line, s.column, s.function, s.receiver) for s in made.calls("outer")] == [
        (22, 30, "C.method", ""), (33, 26, "", ""), (33, 40, "", "X"),
    ]  # fmt: skip
    assert [(s.line, s.column, s.function) for s in made.calls("deco")] == [(13, 2, "")]
    assert [s.receiver for s in made.calls("setter")] == ["value"]
    assert made.calls("nothing") == ()
    text = "π = a().b[0].run(x)\nclass A:\n    @π.go\n    def f(self, x=run()): pass\n"
    assert [(s.line, s.column, s.function, s.receiver) for s in module(text).calls("run")] == [
        (1, 5, "", "a().b[]"), (4, 19, "A", ""),
    ]  # fmt: skip
    assert [(s.line, s.column) for s in module(text).calls("go")] == [(3, 6)]


def _sample() -> list[Path]:
    files = sorted(p for p in STDLIB.glob("*.py") if 5_000 < p.stat().st_size < 25_000)
    return [*random.Random(3).sample(files, 6), STDLIB / "getpass.py", STDLIB / "ssl.py"]


@pytest.mark.parametrize("path", _sample(), ids=lambda path: path.name)
def test_lazily_lowered_body_is_that_of_the_whole_file(path: Path) -> None:
    made = Module(path, path.stem, Source.read(path), True)
    assert shapes.of_tree(made.body()) == shapes.OfAst().block(ast.parse(made.source.text).body)


@pytest.mark.parametrize("path", _sample(), ids=lambda path: path.name)
def test_both_indexes_agree(path: Path) -> None:
    """The index from LibCST serves files whose syntax this Python does not know; here both can be made."""
    source = Source.read(path)
    one, other = index.build(source, ast.parse(source.text)), index_tree.build(source)

    def entries(made: index.Index) -> list[object]:
        return [(e.qualname, e.is_class, e.lines, e.header, e.is_generator, e.is_async) for e in made.entries]

    def items(made: index.Index) -> list[object]:
        return [(i.kind, i.line, i.column, i.binds, i.fallback) for i in index.flat(made.items)]

    assert entries(one) == entries(other)
    assert items(one) == items(other)
    assert one.exported == other.exported


def test_newer_syntax_is_read_by_libcst() -> None:
    made = module("type A[T] = list[T]\ndef f[T](x: T) -> T:\n    return g(x)\nclass B[T]:\n    def m(self): pass\n")
    assert made.names() == {"A", "f", "B"}
    function = made.definition("f")
    assert isinstance(function, tree.Function) and [p.name for p in function.params] == ["x"]
    assert function.span.end_column == 21
    assert [s.function for s in made.calls("g")] == ["f"]
    assert made.definition("B.m") is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", "syntax error: invalid syntax (line 1)"),
        ("x = 1\nprint 'x'\n", "syntax error: Missing parentheses in call to 'print'"),
        ("(" * 5_000 + ")" * 5_000, "nested too deeply"),
    ],
)
def test_what_cannot_be_parsed_is_one_line(text: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        module(text)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_one_refused_statement_leaves_the_rest() -> None:
    made = module("a = 1\nb = " + "c".join(["+"] * 700) + "c\nd = 2\nprint(d)\n")
    assert [type(s).__name__ for s in made.body()] == ["Assign", "Pass", "Assign", "ExprStmt"]
    assert list(made.errors.values()) == ["nested too deeply (line 2)"]


# ------------------------------------------------------------------------------------------------ dotted names


def test_packages_scripts_and_src_folders(tmp_path: Path) -> None:
    made = program(
        tmp_path,
        {
            "src/pkg/__init__.py": "", "src/pkg/sub/__init__.py": "", "src/pkg/sub/mod.py": "",
            "tools/run.py": "import helper", "tools/helper.py": "", "namespace/inner/deep.py": "", "top.py": "",
        },
    )  # fmt: skip
    run, top = made.module(tmp_path / "tools/run.py"), made.module(tmp_path / "top.py")
    assert run is not None and top is not None
    mod = made.find("pkg.sub.mod", top)
    assert mod is not None and mod.path == tmp_path / "src/pkg/sub/mod.py" and mod.name == "pkg.sub.mod"
    assert made.find("pkg") is made.module(tmp_path / "src/pkg/__init__.py")
    helper = made.find("helper", run)
    assert helper is made.module(tmp_path / "tools/helper.py") and helper is not None and helper.in_project
    assert made.find("helper", top) is None
    assert made.find("tools.helper", top) is helper and helper.name == "tools.helper"
    deep = made.find("namespace.inner.deep", top)
    assert deep is not None and deep.path == tmp_path / "namespace/inner/deep.py"
    inner = made.find("namespace.inner", top)
    assert inner is not None and inner.is_package and inner.names() == set()
    assert made.find("pkg.nothing") is None and made.find("") is None
    assert made.resolve_relative(mod, "x.y", 2) == "pkg.x.y" and made.resolve_relative(mod, "", 1) == "pkg.sub"
    package = made.find("pkg.sub")
    assert package is not None and made.resolve_relative(package, "mod", 1) == "pkg.sub.mod"


def test_of_two_modules_of_one_name_the_nearest_is_meant(tmp_path: Path) -> None:
    made = program(
        tmp_path,
        {
            "one/main.py": "import lib", "one/lib/__init__.py": "from . import part", "one/lib/part.py": "",
            "two/main.py": "import lib", "two/lib/__init__.py": "", "two/lib/part.py": "",
        },
    )  # fmt: skip
    for folder in ("one", "two"):
        main = made.module(tmp_path / folder / "main.py")
        found = made.find("lib.part", main)
        assert found is not None and found.path == tmp_path / folder / "lib/part.py"


def test_siblings_are_found_when_one_file_is_linted(tmp_path: Path) -> None:
    write(tmp_path, {"helper.py": "def f(): pass", "main.py": "from helper import f"})
    made = Program([tmp_path / "main.py"], [tmp_path])
    assert target(made, tmp_path / "main.py", "f") == "helper:f"


def test_installed_packages(tmp_path: Path) -> None:
    site = tmp_path / "env/lib/python3.11/site-packages"
    write(
        site,
        {
            "lib/__init__.py": "from ._core import Thing\n", "lib/_core.py": "class Thing: pass\n",
            "torch/__init__.py": "x = 1\n", "numpy/__init__.py": "", "shared/__init__.py": "origin = 'site'",
            "fast.cpython-311-x86_64-linux-gnu.so": "", "stubs/__init__.pyi": "",
        },
    )  # fmt: skip
    made = program(
        tmp_path / "app",
        {
            "main.py": "import lib, torch, fast, stubs, os.path\nfrom lib import Thing\n",
            "shared.py": "",
            "lib/notes.txt": "",
        },
        site=site,
    )
    main = made.module(tmp_path / "app/main.py")
    lib = made.find("lib", main)
    assert lib is not None and not lib.in_project and lib.path == site / "lib/__init__.py"
    assert target(made, tmp_path / "app/main.py", "Thing") == "lib._core:Thing"
    shared = made.find("shared", main)
    assert shared is not None and shared.in_project
    for name in ("torch", "numpy", "os.path", "fast", "stubs", "triton.language"):
        assert made.find(name, main) is None, name


def test_overlay_stands_in_place_of_files(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "x = 1\n"})
    made = Program([tmp_path / "a.py"], [tmp_path], None, {tmp_path / "a.py": "y = 1\n", tmp_path / "b.py": "z = 1\n"})
    a, b = made.find("a"), made.find("b")
    assert a is not None and a.names() == {"y"}
    assert b is not None and b.names() == {"z"}
    assert made.mentions("y") == (tmp_path / "a.py",) and made.mentions("x") == ()


def test_unreadable_files_are_named_once(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_bytes(b"x = '\xff'\n")
    made = program(tmp_path, {"old.py": "print 'x'\n", "main.py": "import bad\n"})
    assert made.module(tmp_path / "bad.py") is None and made.module(tmp_path / "old.py") is None
    assert made.module(tmp_path / "gone.py") is None and made.find("bad") is None
    assert sorted(path.name for path in made.errors) == ["bad.py", "gone.py", "old.py"]
    assert all("\n" not in message for message in made.errors.values())


# ------------------------------------------------------------------------------------------------ import targets


def test_names_are_followed_to_their_definition(tmp_path: Path) -> None:
    made = program(
        tmp_path,
        {
            "main.py": (
                "import torch\nimport pkg.deep.leaf\nimport pkg.deep.leaf as leaf\nfrom torch import cuda as device\n"
                "from torch.cuda import graph\nfrom pkg import Model, helper, deep, renamed, missing, Flag\n"
                "from functools import partial\nlocal = 1\n"
            ),
            "pkg/__init__.py": (
                "from .model import *\nfrom .deep import leaf\nfrom .deep.leaf import helper, old as renamed\n"
                "try:\n    from gone import Flag\nexcept ImportError:\n    Flag = None\n"
            ),
            "pkg/model.py": "__all__ = ['Model']\nclass Model: pass\nclass Hidden: pass\ndef _private(): pass\n",
            "pkg/deep/__init__.py": "", "pkg/deep/leaf.py": "def helper(): pass\ndef old(): pass\n",
        },
    )  # fmt: skip
    main = tmp_path / "main.py"
    expected = {
        "torch": "torch", "pkg": "pkg:", "leaf": "pkg.deep.leaf:", "device": "torch.cuda", "graph": "torch.cuda.graph",
        "Model": "pkg.model:Model", "helper": "pkg.deep.leaf:helper", "deep": "pkg.deep:",
        "renamed": "pkg.deep.leaf:old", "missing": None, "Flag": "gone.Flag", "partial": "functools.partial",
        "local": "main:local", "nothing": None,
    }  # fmt: skip
    assert {name: target(made, main, name) for name in expected} == expected
    assert target(made, tmp_path / "pkg/__init__.py", "Hidden") is None
    assert target(made, tmp_path / "pkg/__init__.py", "_private") is None
    assert target(made, tmp_path / "pkg/__init__.py", "leaf") == "pkg.deep.leaf:"


def test_the_likelier_of_two_bindings(tmp_path: Path) -> None:
    made = program(
        tmp_path,
        {
            "a.py": "try:\n    from fast import f\nexcept ImportError:\n    from slow import f\n",
            "slow.py": "def f(): pass",
            "b.py": "if TYPE_CHECKING:\n    from slow import f\nelse:\n    f = lazy('slow.f')\n",
            "c.py": "from slow import f\ndef f(): pass\n",
        },
    )  # fmt: skip
    assert target(made, tmp_path / "a.py", "f") == "fast.f"
    assert target(made, tmp_path / "b.py", "f") == "slow:f"
    assert target(made, tmp_path / "c.py", "f") == "c:f"


def test_lazy_packages(tmp_path: Path) -> None:
    lazy = "class _LazyModule: pass\ndef define_import_structure(x): pass\n"
    made = program(
        tmp_path,
        {
            "big/__init__.py": (
                "from .utils import _LazyModule, define_import_structure\n"
                "_import_structure = {'data': [], 'data.tables': ['Table', 'Row'], 'other': ['Row2']}\n"
                "_import_structure['more'].extend(['Extra'])\n"
                "if TYPE_CHECKING:\n    from .models import *\n"
                "else:\n    sys.modules[__name__] = _LazyModule(__name__, _import_structure)\n"
            ),
            "big/utils.py": lazy, "big/data/__init__.py": "", "big/data/tables.py": "class Table: pass\nRow = 1\n",
            "big/other.py": "", "big/more.py": "def Extra(): pass\n",
            "big/models/__init__.py": "if TYPE_CHECKING:\n    from .gpt import *\nelse:\n    pass\n",
            "big/models/gpt/__init__.py": "if TYPE_CHECKING:\n    from .modeling_gpt import *\nelse:\n    pass\n",
            "big/models/gpt/modeling_gpt.py": "class GPT: pass\nclass Inner: pass\n__all__ = ['GPT']\n",
            "small/__init__.py": "_names = {'go': '.impl', 'stop': ('small.impl', 'x')}\ndef __getattr__(name): ...\n",
            "small/impl.py": "def go(): pass\ndef stop(): pass\nclass Only: pass\n",
        },
    )  # fmt: skip
    big, small = tmp_path / "big/__init__.py", tmp_path / "small/__init__.py"
    assert target(made, big, "Table") == "big.data.tables:Table"
    assert target(made, big, "Row") == "big.data.tables:Row"
    assert target(made, big, "Extra") == "big.more:Extra"
    assert target(made, big, "GPT") == "big.models.gpt.modeling_gpt:GPT"
    assert target(made, big, "nothing") is None
    assert target(made, small, "go") == "small.impl:go" and target(made, small, "stop") == "small.impl:stop"
    assert target(made, small, "Only") == "small.impl:Only"


def test_a_computed_all_is_taken_for_all_names(tmp_path: Path) -> None:
    made = program(
        tmp_path,
        {
            "p/__init__.py": "from .listed import *\nfrom .computed import *\n",
            "p/listed.py": "__all__ = [  # public\n    'a',\n]\ndef a(): pass\ndef b(): pass\n",
            "p/computed.py": "def c(): pass\n__all__ = [n for n in list(globals()) if ok(n)]\n",
        },
    )
    found = [target(made, tmp_path / "p/__init__.py", name) for name in "abc"]
    assert found == ["p.listed:a", None, "p.computed:c"]


def test_import_cycles_end(tmp_path: Path) -> None:
    made = program(
        tmp_path,
        {
            "a.py": "from b import *\nfrom b import x\n", "b.py": "from a import *\nfrom a import x\n",
            "p/__init__.py": "from . import q\nfrom .q import *\nfrom p import p\n", "p/q.py": "from p import *\n",
        },
    )  # fmt: skip
    assert target(made, tmp_path / "a.py", "x") is None and target(made, tmp_path / "a.py", "y") is None
    assert target(made, tmp_path / "p/__init__.py", "q") == "p.q:"
    assert target(made, tmp_path / "p/__init__.py", "p") is None


def test_a_single_star_of_an_unread_package_is_where_a_name_comes_from(tmp_path: Path) -> None:
    made = program(
        tmp_path, {"a.py": "from torch.cuda import *\n", "b.py": "from torch import *\nfrom numpy import *\n"}
    )
    assert target(made, tmp_path / "a.py", "graph") == "torch.cuda.graph"
    assert target(made, tmp_path / "a.py", "print") is None
    assert target(made, tmp_path / "b.py", "graph") is None


# ------------------------------------------------------------------------------------------------ text search


def test_mentions_are_whole_words(tmp_path: Path) -> None:
    made = program(tmp_path, {"a.py": "x.step()", "b.py": "stepper = my_step", "c.py": "def step(): ..."})
    assert [path.name for path in made.mentions("step")] == ["a.py", "c.py"]


@pytest.mark.parametrize(
    "text",
    [
        "with torch.cuda.graph(g): pass", "dev.graph(g)", "from torch.cuda import graph",
        "from torch.cuda import (\n graph,\n)",
        "torch.compile(f, mode='reduce-overhead')", "torch.compile(f, mode='max-autotune')", "backend='cudagraphs'",
        "{'triton.cudagraphs': True}", "make_graphed_callables(f)", "g.capture_begin()", "torch.accelerator.Graph()",
        "get_accelerator().capture_to_graph(g)", "CudaGraphModule(m)", "torch.xpu.XPUGraph()", "our_capture(f)",
    ],
)  # fmt: skip
def test_capture_files(tmp_path: Path, text: str) -> None:
    made = program(tmp_path, {"a.py": text, "b.py": "import torch\nprint('paragraph', graph)\n"})
    assert [path.name for path in made.capture_files(["our_capture"])] == ["a.py"]


# ------------------------------------------------------------------------------------------------ environments


def test_environments_are_found_by_layout(tmp_path: Path) -> None:
    for env in (
        "named/lib/python3.9",
        "named/lib/python3.12",
        "active/lib/python3.11",
        "project/.venv/lib/python3.13",
        "win/Lib",
    ):
        (tmp_path / env / "site-packages").mkdir(parents=True)
    (tmp_path / "named/bin").mkdir()
    (tmp_path / "named/bin/python").symlink_to("/bin/sh")
    (tmp_path / "project/src/deep").mkdir(parents=True)
    named, active = tmp_path / "named/lib/python3.12/site-packages", tmp_path / "active/lib/python3.11/site-packages"
    start, environ = tmp_path / "project/src/deep", {"VIRTUAL_ENV": str(tmp_path / "active")}
    for python in ("named", "named/bin", "named/bin/python"):
        assert find_site_packages(str(tmp_path / python), start, environ) == named
    assert find_site_packages(str(tmp_path / "win"), start, {}) == tmp_path / "win/Lib/site-packages"
    assert find_site_packages(str(tmp_path / "nothing"), start, environ) is None
    assert find_site_packages(None, start, environ) == active
    assert find_site_packages(None, start, {}) == tmp_path / "project/.venv/lib/python3.13/site-packages"
    assert find_site_packages(None, tmp_path, {"VIRTUAL_ENV": str(tmp_path / "gone")}) is None
