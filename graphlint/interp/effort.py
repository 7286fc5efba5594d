"""How much work a call may cost while a root is still looking for its capture.

Most of what a program does before it captures (reading a configuration, loading a tokenizer) tells nothing about the
capture. So a call that does not lie on the way from a root to a capture site, as far as names tell, may only cost so
much; what it returns beyond that is unknown. Once a capture has begun, and inside it, nothing is rationed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from graphlint.interp.objects import BudgetSpent, FunctionValue
from graphlint.value import Value

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

#: The part of the budget that a call beside the way may cost.
BESIDE = 4
#: What applying a decorator may cost: what returns something else than the function it got does so soon.
DECORATOR = 400
#: What a function may cost that takes nothing and remembers its answer, such as whether a package is installed.
QUERY = 60
#: What a package's constructor may spend on a call of something else than a constructor.
PART = 150
#: With so little left, a call has all of it.
WORTH_PARTING = 300
V = TypeVar("V")


class Way:
    """The functions between the roots and the capture sites, by file and qualified name.

    What is nested in one of them, and the construction of an object one of whose methods is one, are on the way too.
    """

    def __init__(self, functions: Iterable[tuple[str, str]] = ()) -> None:
        self.functions = set(functions)
        self.makers = {(path, name.rpartition(".")[0] + ".__init__") for path, name in self.functions if "." in name}

    def leads(self, function: FunctionValue) -> bool:
        path, name = str(function.scope.module.path), function.name
        if (path, name) in self.functions or (path, name) in self.makers:
            return True
        outer = name.rpartition(".")[0]
        while outer:
            if (path, outer) in self.functions:
                return True
            outer = outer.rpartition(".")[0]
        return False


#: What the end of a block that was left early may cost.
LETTING_GO = 60


def spend(m: Machine, function: FunctionValue, args: tuple[Value, ...], work: Callable[[], V], otherwise: V) -> V:
    """Runs a call of `function` with as much effort as it deserves here."""
    in_project = function.scope.module.in_project
    if (m.way is None or m.regions) and (in_project or not m.building):
        return work()
    leads = m.way is not None and m.way.leads(function)
    if function.memo and not args and not leads:
        return rationed(m, QUERY, work, otherwise, until_way=m.full_budget is None, within=m.full_budget)
    if m.full_budget is None:
        return work() if leads else rationed(m, m.budget // BESIDE, work, otherwise, until_way=True)
    if not leads:
        # Not all of what is left: what comes after a costly call, such as the rest of a constructor, is seen too.
        left = m.budget - m.ticks
        ration = min(left * 3 // 4, PART) if _is_part(m, function, args) else left * 3 // 4
        return rationed(m, ration, work, otherwise, within=m.full_budget) if left > WORTH_PARTING else work()
    # Called back from a call beside the way, such as a trainer's.
    limit, full, begun = m.budget, m.full_budget, m.ticks
    m.budget, m.full_budget = full, None
    try:
        return work()
    finally:
        m.full_budget = full
        if not m.regions:
            m.budget = min(full, limit + m.ticks - begun)


def _is_part(m: Machine, function: FunctionValue, args: tuple[Value, ...]) -> bool:
    """True for what a package's constructor calls beside other constructors: checks, defaults, loading of kernels."""
    caller = m.stack[-1].function if m.stack else None
    if caller is None or not caller.name.endswith(".__init__") or caller.scope.module.in_project:
        return False
    constructs = bool(args) and bool(m.instances) and args[0] is m.instances[-1]
    return not constructs and not function.name.endswith(".__init__")


def rationed(
    m: Machine, ticks: int, work: Callable[[], V], otherwise: V, until_way: bool = False, within: int | None = None
) -> V:
    """What `work` returns, or `otherwise` if it costs more than `ticks`: what it did until then stays done.

    until_way: a call on the way, made inside, has the whole budget again, or the budget `within` if that is given.
    """
    full, outer = m.budget, m.full_budget
    stack, chain, path = len(m.stack), m.chain, m.path
    loops, contexts, conditions, journalling = m.loops, m.contexts, m.conditions, m.journalling
    since = m.uncertain_since
    known, region = len(m.regions), m.region
    m.budget = min(full, m.ticks + ticks)
    m.full_budget = full if until_way else within
    try:
        return work()
    except BudgetSpent:
        if m.ticks > full or m.region is not region:
            raise
        m.hurried = True
        del m.stack[stack:]
        m.chain, m.path, m.loops, m.contexts, m.conditions = chain, path, loops, contexts, conditions
        m.journalling, m.uncertain_since = journalling, since
        return otherwise
    finally:
        m.full_budget = outer
        # A capture that began inside has raised the budget for good.
        if len(m.regions) == known or m.building:
            m.budget = full


def let_go(m: Machine, restore: Callable[[], object]) -> None:
    """Runs what ends a block that was left early, for little: a flag that it had set is not left set for ever."""
    full, m.budget = m.budget, m.ticks + LETTING_GO
    try:
        restore()
    except BudgetSpent:
        pass
    finally:
        m.budget = full
