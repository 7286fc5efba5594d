"""Random numbers that a graph freezes, and generator work that a capture refuses."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import queries
from graphlint.doubt import CAPTURING, once, problem, spelled
from graphlint.fact import Fact, Index, Op, Operator, Truth, Write
from graphlint.finding import Problem
from graphlint.knowledge import factories, rng
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Host, Instance, Sequence, Tensor, Value, options, tensors

_MOVES = frozenset({"Tensor.to", "Tensor.cuda", "Tensor.copy_"})


@rule("GL006", "rng-misuse", "error", "random numbers that a graph freezes, or seeding that a capture refuses")
def check(region: Region) -> Iterator[Problem]:
    if region.kind in CAPTURING:
        yield from once(_found(region))


def _found(region: Region) -> Iterator[Problem]:
    facts = list(region.captured)
    for position, fact in enumerate(facts):
        if isinstance(fact, Op):
            yield from _op(region, fact, facts[position + 1 :])


def _op(region: Region, fact: Op, later: list[Fact]) -> Iterator[Problem]:
    text = spelled(fact.text, fact.name)
    if fact.name in rng.SEEDING:
        if fact.receiver is None or _on_gpu(fact.receiver):
            why = (
                "raises in a capture"
                if fact.name in rng.FRESH_SEED
                else "raises for a new seed, and a replay never seeds"
            )
            yield problem(region, fact, f"`{text}` {why}: seed between replays")
    elif fact.name == "torch.Generator" and isinstance(fact.result, Instance) and _on_gpu(fact.result):
        yield problem(region, fact, f"`{text}` makes a CUDA generator, which is refused in a capture: make it before")
    elif fact.name in rng.STATE_REFUSED and _on_gpu(fact.receiver):
        yield problem(region, fact, f"`{text}` is refused in a capture: use `graphsafe_get_state`, or do it outside")
    elif fact.name in rng.STATE_WRITES and (fact.receiver is None or _on_gpu(fact.receiver)):
        yield problem(
            region, fact, f"`{text}` sets the state once, at capture, and no replay does: set it between replays"
        )
    elif fact.name in rng.STATE_READS:
        if _reaches(fact, later):
            message = (
                f"`{text}` gives a number that the graph keeps for every replay: put it into a tensor before each "
                "replay"
            )
            yield problem(region, fact, message)
    elif rng.host_draw(fact.name):
        if _reaches(fact, later):
            message = f"`{text}` draws on the host, once: every replay uses the same number; draw on the device"
            yield problem(region, fact, message)
    elif rng.takes_generator(fact.name) and (generator := _private(region, fact)) is not None:
        message = (
            f"`{text}` draws from a generator that the graph was not told of, an error before torch 2.14: "
            "call `graph.register_generator_state(generator)` before the capture"
        )
        if region.settings.at_least(2, 14) is not True and not _registered(region, fact, generator):
            yield problem(region, fact, message)
    elif rng.tensor_draw(fact.name) and _drawn_on_cpu(fact, later):
        yield problem(
            region, fact, f"`{text}` draws on the CPU, once: every replay uses the same number; draw on the device"
        )


def _on_gpu(generator: Value | None) -> bool:
    """Whether a generator is one of the GPU's; one of unknown device counts."""
    if not isinstance(generator, Instance) or generator.external != "torch.Generator":
        return generator is not None
    given = generator.args[0] if generator.args else generator.kwargs.get("device")
    return given is not None and factories.device_of(given) != "cpu"


def _private(region: Region, fact: Op) -> Instance | None:
    given = fact.kwargs.get("generator")
    for option in options(given) if given is not None else ():
        if isinstance(option, Instance) and option.external == "torch.Generator" and _on_gpu(option):
            return option
    return None


def _registered(region: Region, fact: Fact, generator: Instance) -> bool:
    """Whether the graph that is captured here was told of `generator`; another graph does not count."""
    mine = queries.graphs(region.graph)
    return any(
        isinstance(f, Op)
        and f.name.endswith(".register_generator_state")
        and generator in f.args
        and (not mine or not isinstance(f.receiver, Instance) or f.receiver in mine)
        for f in region.life
        if f.order < fact.order
    )


def _reaches(fact: Op, later: list[Fact]) -> bool:
    """Whether what `fact` drew on the host comes to captured work: an operand, an argument or a branch."""
    if fact.name.endswith(".shuffle"):
        return True
    if isinstance(fact.result, Host):
        return any(any(_random(v, fact) for v in _operands(other)) for other in later)
    return True


def _operands(fact: Fact) -> list[Value]:
    if isinstance(fact, Op):
        if fact.name.startswith(("random.", "numpy.", "time.", "logging.")):
            return []
        return [*fact.args, *fact.kwargs.values()]
    if isinstance(fact, Operator):
        return list(fact.operands)
    if isinstance(fact, Truth):
        return [fact.value]
    if isinstance(fact, Index):
        return [fact.index]
    if isinstance(fact, Write):
        return [v for v in (fact.source, fact.index) if v is not None]
    return []


def _random(value: Value, draw: Fact) -> bool:
    """Whether a value comes from a draw on the host, or from what `draw` read."""
    for option in options(value):
        if isinstance(option, Host) and (option.source == "random" or option.read_at == draw.at):
            return True
        if isinstance(option, Sequence) and any(_random(i, draw) for i in option.items):
            return True
    return False


def _drawn_on_cpu(fact: Op, later: list[Fact]) -> bool:
    """Whether a CPU draw stays on the host; what is copied to the GPU is a host copy's matter."""
    made = [o for o in options(fact.result) if isinstance(o, Tensor)] if fact.result is not None else []
    if not made or any(t.device != "cpu" for t in made):
        return False
    memory = {t.storage for t in made}
    for other in later:
        if isinstance(other, Op) and other.name in _MOVES:
            values = [*([other.receiver] if other.receiver is not None else []), *other.args]
            if any(t.storage in memory for v in values for t in tensors(v, 0)):
                return False
    return True
