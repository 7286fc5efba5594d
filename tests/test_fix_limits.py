"""Where no fix may be offered, because the result would not run or would mean something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint.config import Config
from graphlint.engine import check
from graphlint.registry import load_rules

REGISTRY = load_rules()
HEAD = """\
import torch
from torch import nn

net = nn.Linear(4, 4).cuda().requires_grad_(False)
x = torch.zeros(4, 4, device="cuda")
graph = torch.cuda.CUDAGraph()
net(x)
torch.cuda.synchronize()
"""
CAPTURE = HEAD + "with torch.cuda.graph(graph):\n    y = net(x)\n"

#: (rule, what the text of the program is)
NONE = {
    "a list of outputs has no clone": ("output-reuse", CAPTURE + """
def step(value):
    x.copy_(value)
    graph.replay()
    return y
values = [torch.randn(4, 4, device="cuda") for _ in range(3)]
kept = list(map(step, values))
print(torch.stack(kept).sum())
"""),
    "nor has a list that a runner returns": ("output-reuse", CAPTURE + """
def step(value):
    x.copy_(value)
    graph.replay()
    return [y]
kept = []
for value in torch.randn(3, 4, 4, device="cuda"):
    kept.extend(step(value))
print(torch.stack(kept).sum())
"""),
    "nor has a tuple": ("output-reuse", CAPTURE + """
def step(value):
    x.copy_(value)
    graph.replay()
    return y, y.view(-1)
first, flat = step(torch.ones(4, 4, device="cuda"))
second, other = step(torch.zeros(4, 4, device="cuda"))
print((first - second).abs().max(), flat.sum(), other.sum())
"""),
    "a graph that others made may be replayed by them": ("capture-misuse", HEAD + """
def record(graph):
    with torch.cuda.graph(graph):
        return net(x)
record(graph)
y = record(graph)
graph.replay()
"""),
    "a number that is compared must be read first": ("tensor-control-flow", HEAD + """
def work():
    loud = x.abs().max().item()
    print(loud)
    if loud > 1:
        return x * 0.5
    return x
work()
with torch.cuda.graph(graph):
    y = work()
graph.replay()
"""),
    "a table is no list of numbers": ("host-copy", HEAD + """
TABLE = [[1.0, 2.0, 3.0, 4.0]]
def work():
    return x * torch.tensor(TABLE, device=x.device)
work()
with torch.cuda.graph(graph):
    y = work()
graph.replay()
"""),
    "an index by a tensor gives a copy": ("host-copy", HEAD + """
rows = torch.zeros(1, 1, dtype=torch.long, device="cuda")
def work():
    z = x.clone()
    z[rows] = 9.0
    return z
work()
with torch.cuda.graph(graph):
    y = work()
graph.replay()
"""),
    "a drawn number that is an argument stays one": ("rng-misuse", "import random\n" + HEAD + """
def work():
    return torch.nn.functional.dropout(x, p=random.random())
work()
with torch.cuda.graph(graph):
    y = work()
graph.replay()
"""),
    "a block that yields must run once": ("missing-warmup", """\
from contextlib import contextmanager
import torch
from torch import nn

@contextmanager
def capturing(graph):
    with torch.cuda.graph(graph):
        yield

net = nn.Linear(4, 4).cuda().requires_grad_(False)
x = torch.zeros(4, 4, device="cuda")
graph = torch.cuda.CUDAGraph()
with capturing(graph):
    y = net(x)
graph.replay()
"""),
    "a warm-up would train": ("missing-warmup", """\
import torch
from torch import nn

net = nn.Linear(4, 4).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.ones(4, 4, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    net(x).sum().backward()
    opt.step()
graph.replay()
"""),
    "whole numbers do not hold a share": ("stale-scalar", """\
import torch

class Mixer:
    def __init__(self):
        self.share = 1
        self.x = torch.ones(4, device="cuda")
    def mix(self):
        return self.x * self.share
    def capture(self):
        self.mix()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.mix()
    def run(self, share):
        self.share = share
        self.graph.replay()
        return self.out.clone()

mixer = Mixer()
mixer.capture()
print(mixer.run(0.5))
"""),
    "a number that counts rows stays one": ("stale-scalar", """\
import torch

class Window:
    def __init__(self):
        self.width = 2.0
        self.x = torch.ones(4, device="cuda")
    def mean(self):
        return self.x[: int(self.width)].sum() / self.width
    def capture(self):
        self.mean()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.mean()
    def run(self, width):
        self.width = width
        self.graph.replay()
        return self.out.clone()

window = Window()
window.capture()
print(window.run(3.0))
"""),
    "groups would share the tensor": ("stale-scalar", """\
import torch
from torch import nn

first, second = nn.Linear(4, 4).cuda(), nn.Linear(4, 4).cuda()
groups = [{"params": first.parameters()}, {"params": second.parameters()}]
opt = torch.optim.AdamW([{"params": first.parameters()}, {"params": second.parameters()}], lr=0.1, capturable=True)
x = torch.ones(4, 4, device="cuda")
def step():
    second(first(x)).sum().backward()
    opt.step()
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    step()
torch.cuda.current_stream().wait_stream(side)
opt.zero_grad(set_to_none=True)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
for _ in range(3):
    graph.replay()
    for group in opt.param_groups:
        group["lr"] *= 0.5
"""),
    "a mask of rows and as many values": ("dynamic-shape-op", HEAD + """
mask = x[:, 0] > 0
few = torch.ones(2, 4, device="cuda")
def work():
    z = x.clone()
    z[mask] = few
    return z
work()
with torch.cuda.graph(graph):
    y = work()
graph.replay()
"""),
    "a test that guards another": ("tensor-control-flow", HEAD + """
def work(bias):
    z = x * 2
    if bias is not None and (bias > 0).any():
        z = z + bias
    return z
work(torch.ones(4, device="cuda"))
with torch.cuda.graph(graph):
    y = work(torch.ones(4, device="cuda"))
graph.replay()
"""),
    "a loop is no choice": ("tensor-control-flow", HEAD + """
def work():
    z, steps = x, 0
    while z.norm() > 1 and steps < 5:
        z = z * 0.5
        steps += 1
    return z
work()
with torch.cuda.graph(graph):
    y = work()
graph.replay()
"""),
    "two captures at once fail in any mode": ("capture-thread", """\
import threading
import torch
from torch import nn

class Worker:
    def __init__(self):
        self.net = nn.Linear(4, 4).cuda().requires_grad_(False)
        self.x = torch.zeros(4, 4, device="cuda")
        self.net(self.x)
        self.graph = torch.cuda.CUDAGraph()
    def build(self):
        with torch.cuda.graph(self.graph):
            self.y = self.net(self.x)

workers = [Worker() for _ in range(2)]
torch.cuda.synchronize()
threads = [threading.Thread(target=worker.build) for worker in workers]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""),
}  # fmt: skip


@pytest.mark.parametrize(("rule", "text"), NONE.values(), ids=list(NONE))
def test_no_fix_is_offered(rule: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(text, encoding="utf-8")
    found = [f for f in check([path], Config(root=tmp_path), registry=REGISTRY).findings if f.rule == rule]
    assert found, "the program does not show what it is for"
    assert [f.fix.title for f in found if f.fix is not None] == []
