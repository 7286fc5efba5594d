"""Loops that run on: which of them deserve one more round than their share, and what they ask in it.

What the last round captured, the next replays; what it bound for the first time, behind a condition that did not hold
in the rounds before, is there when the next replays. Nobody would see that if the last round were the last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.fact import Bind, CaptureBegin, Fact, Op, Replay
from graphlint.lower import tree
from graphlint.source import Location
from graphlint.value import Const, Host, Value, origins

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

#: Methods that bind what an object holds, without a name that is seen to be bound.
_REBINDING = (".load_state_dict", ".set_", ".to_empty", ".requires_grad_")


def wanted(m: Machine, starts: list[int]) -> bool:
    """`starts`: where on the tape each round so far began."""
    if m.region is not None or len(starts) < 2:
        return False
    last = m.life[starts[-1] :]
    if _captures(last) and not _captures(m.life[starts[0] : starts[-1]]):
        return True
    replayed = next((index for index, fact in enumerate(last) if isinstance(fact, Replay)), None)
    if replayed is None:
        return False
    new = {at for fact in last[replayed:] if (at := _bound_at(fact)) is not None}
    return bool(new) and not new <= {_bound_at(fact) for fact in m.life[starts[0] : starts[-1]]}


def answer(m: Machine, node: tree.If | tree.IfExp, test: Const | Host, known: bool | None) -> bool | None:
    """A question about a counter that was answered both ways in the first rounds of a loop: `if step == 0:` stays as it
    was answered last, once the counter is no longer known."""
    loop = next((loop for loop, _ in reversed(m.loops) if m.runs_on(loop)), None)
    if loop is None:
        return known
    answers = m.answered.get((loop, id(node)), ())
    if known is not None:
        if origins(test) and (not answers or answers[-1] is not known):
            m.answered[loop, id(node)] = (*answers[-1:], known)
        return known
    return answers[-1] if len(answers) == 2 and isinstance(test, Host) and test.source == "loop" else None


def comes_back(m: Machine, node: tree.AugAssign, old: Value, new: Const) -> bool:
    """True for a number that this statement has given to this place before, or that is its first: a depth that goes up
    and down in each round, or a count that begins anew, is as known in a later round as in the first."""
    given = m.given.setdefault((id(node), old.place), set())
    back = not given or new.value in given
    given.add(new.value)
    return back


def _captures(facts: list[Fact]) -> bool:
    return any(isinstance(f, CaptureBegin) for f in facts)


def _bound_at(fact: Fact) -> Location | None:
    """Where something that outlives the round is bound."""
    if isinstance(fact, Bind) and fact.place.kind != "local" and fact.region is None:
        return fact.at
    return fact.at if isinstance(fact, Op) and fact.name.endswith(_REBINDING) and fact.region is None else None
