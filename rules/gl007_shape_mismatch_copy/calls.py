"""Calls of a graphed callable: it copies what it is given into its sample inputs."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint.fact import Bind, Fact, Op, Write
from graphlint.region import Region
from graphlint.value import Const, Instance, Sequence, Tensor


def inputs_of_call(region: Region, fact: Fact) -> Iterator[Write]:
    """The copies that a call of a graphed callable makes: what it is given, into its sample inputs."""
    if not isinstance(fact, Op) or fact.name != "graphed-callable.call" or fact.receiver is not region.graph:
        return
    if runs_eagerly(region, fact):
        return
    samples = region.options.get("sample_args")
    for given, sample in zip(fact.args, samples.items if isinstance(samples, Sequence) else (), strict=False):
        if isinstance(sample, Tensor) and fact.region is None:
            yield Write(
                at=fact.at, function=fact.function, order=fact.order, chain=fact.chain, maybe=fact.maybe,
                chosen=fact.chosen, loops=fact.loops, target=sample, how="copy_", source=given,
            )  # fmt: skip


def runs_eagerly(region: Region, call: Fact) -> bool:
    """True if a graphed module was put into the other mode (train, eval) after its capture, where it runs eagerly."""
    module = region.graph.attrs.get("$function") if isinstance(region.graph, Instance) else None
    if not isinstance(module, Instance):
        return False
    mode = at_capture = True
    for fact in region.life[: region.position(call.order)]:
        if isinstance(fact, Bind) and fact.owner is module and fact.place.name == "training":
            if not isinstance(fact.value, Const):
                return True
            mode = bool(fact.value.value)
            at_capture = mode if fact.order < region.begin else at_capture
    return mode != at_capture
