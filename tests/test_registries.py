"""Tables that other files fill: captured code looks up what a decorator or a call elsewhere put there."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import engine
from graphlint.config import Config
from graphlint.interp.registries import FILES, tells_of_class
from graphlint.program.text import Joined, is_filled

MODEL = """
import torch
from torch import nn
from {table} import {name}


class Block(nn.Module):
    def __init__(self, act):
        super().__init__()
        self.act, self.lin = act, nn.Linear(8, 8)

    def forward(self, x):
        return {lookup}(self.lin(x))


def capture(net):
    x = torch.zeros(2, 8, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            net(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = net(x)
    return graph, x, y
"""
MAIN = """
import acts
from model import Block, capture

graph, x, y = capture(Block("{act}").cuda().requires_grad_(False))
graph.replay()
print(y.sum().item())
"""
ACTS = """
{imports}


{before}
def {gate}(x):
    return x.sigmoid() * x


{other}
def {clip}(x):
    return x.clamp(max=x.max().item())
{after}
"""
FUNCTION = """
TABLE = {}


def register(name):
    def deco(fn):
        TABLE[name] = fn
        return fn

    return deco


def add(name, fn):
    TABLE[name] = fn
"""
OBJECT = """
class Registry:
    def __init__(self):
        self.entries = {}

    def register(self, name):
        def deco(fn):
            self.entries[name] = fn
            return fn

        return deco

    def get(self, name):
        return self.entries[name]


TABLE = Registry()
"""
CLASS = """
class TABLE:
    entries = {}

    @classmethod
    def register(cls, name):
        def deco(fn):
            cls.entries[name] = fn
            return fn

        return deco
"""
TWICE = ('@{0}("gate")', '@{0}("clip")')
CALLS = 'table.add("gate", gate)\ntable.add("clip", clip)'
STORES = 'TABLE["clip"] = clip\nTABLE["gate"] = gate'
#: The table, how it is looked up, what the other file imports, its decorator, and what stands at its end.
FORMS = {
    "decorator": (FUNCTION, "TABLE[self.act]", "from table import register", "register", ""),
    "of-module": (FUNCTION, "TABLE[self.act]", "import table", "table.register", ""),
    "call": (FUNCTION, "TABLE[self.act]", "import table", "", CALLS),
    "item": (FUNCTION, "TABLE[self.act]", "from table import TABLE", "", STORES),
    "update": (FUNCTION, "TABLE[self.act]", "from table import TABLE", "", "TABLE.update(clip=clip, gate=gate)"),
    "get": (FUNCTION, "TABLE.get(self.act)", "from table import register", "register", ""),
    "object": (OBJECT, "TABLE.get(self.act)", "from table import TABLE", "TABLE.register", ""),
    "class": (CLASS, "TABLE.entries[self.act]", "from table import TABLE", "TABLE.register", ""),
}


def program(form: str, act: str) -> dict[str, str]:
    """The files of a program that looks `act` up in a table which another file fills."""
    table, lookup, imports, decorator, after = FORMS[form]
    before, other = (line.format(decorator) if decorator else "" for line in TWICE)
    return {
        "table": table,
        "model": MODEL.format(table="table", name="TABLE", lookup=lookup),
        "main": MAIN.format(act=act),
        "acts": ACTS.format(imports=imports, before=before, other=other, after=after, gate="gate", clip="clip"),
    }


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("act", ["clip", "gate"])
def test_entries_from_another_file_are_found(form: str, act: str, tmp_path: Path) -> None:
    texts = program(form, act)
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    report = engine.check([tmp_path], Config())
    assert not report.errors
    assert [(Path(f.at.path).stem, f.rule) for f in report.findings] == [("acts", "host-sync")] * (act == "clip")


def test_another_function_of_that_name_registers_nothing(tmp_path: Path) -> None:
    table, lookup, *_ = FORMS["decorator"]
    texts = {
        "table": table + '\n\n@register("gate")\ndef gate(x):\n    return x.sigmoid() * x\n',
        "model": MODEL.format(table="table", name="TABLE", lookup=lookup),
        "main": MAIN.format(act="gate"),
        "acts": "from atexit import register\nimport table\n\n\n@register\ndef gate(x):\n    return x.max().item()\n",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    assert not engine.check([tmp_path], Config()).findings


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("act", ["clip", "gate", "far"])
def test_with_many_files_the_nearest_fill_a_table_and_the_rest_is_unknown(form: str, act: str, tmp_path: Path) -> None:
    """More files register than are read: what was read is known, and no other key means one of those entries."""
    texts = program(form, act)
    for number in range(FILES + 6):
        names = {"gate": f"gate{number}", "clip": f"clip{number}"}
        text = texts["acts"]
        for old, new in names.items():
            text = text.replace(f'"{old}"', f'"{new}"').replace(f"{old}=", f"{new}=")
        texts[f"far{number}/acts"] = text
    for name, text in texts.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    report = engine.check([tmp_path], Config())
    assert [(Path(f.at.path).stem, f.rule) for f in report.findings] == [("acts", "host-sync")] * (act == "clip")


@pytest.mark.parametrize(
    ("text", "fills"),
    [
        ('OPS["a"] = 1', True),
        ('x = OPS["a"] = f', True),
        ("@OPS.register\ndef f(): pass", True),
        ('@ops.OPS("x")\ndef f(): pass', True),
        ("@OPS\ndef f(): pass", True),
        ("if x:\n    OPS.update(a=1)", True),
        ('if x: OPS["b"] = 2', True),
        ("for k in x:\n\tm.OPS[k] = v", True),
        ("from a import OPS\n", False),
        ('x = OPS["a"]', False),
        ("OPS = {}", False),
        ("print(OPS)", False),
        ('def f():\n    OPS["a"] = 1\n', False),
        ('def f(\n    a,\n):\n    # set\n\n    OPS["a"] = 1', False),
    ],
)
def test_how_a_line_begins_tells_whether_it_fills_a_table(text: str, fills: bool) -> None:
    joined = Joined.of([(Path("/before.py"), b"x = 1"), (Path("/one.py"), text.encode())])
    assert joined.holding("OPS", None, is_filled) == ((Path("/one.py"),) if fills else ())


HOOK = "def __init_subclass__(cls, **kwargs):\n    super().__init_subclass__(**kwargs)\n"


@pytest.mark.parametrize(
    ("body", "tells"),
    [
        ("TABLE[cls.name] = cls", True),
        ("add(cls)", True),
        ("cls.made.append(cls.__name__)", True),
        ("cls.size = 1", True),
        ("cls.enter()", True),
        ("assert hasattr(cls, 'size')", False),
        ("if not cls.size: raise TypeError(cls.__name__)", False),
        ("warnings.warn(f'{cls.__name__} is old')", False),
    ],
)
def test_a_hook_that_only_checks_a_class_need_not_be_run(body: str, tells: bool) -> None:
    assert tells_of_class(f"{HOOK}    {body}\n") == tells
