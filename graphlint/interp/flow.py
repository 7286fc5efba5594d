"""Branches and loops: every arm from the same state, their effects joined; loops of unknown length a few times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from graphlint.fact import Branch, Iterate
from graphlint.interp import draining, execute, further, iteration, operators, settling
from graphlint.interp.narrowing import narrow
from graphlint.interp.operators import truth
from graphlint.interp.spelling import spelled
from graphlint.lower import tree
from graphlint.source import Span
from graphlint.value import Const, Host, Unknown, Value, ids, join

if TYPE_CHECKING:
    from graphlint.interp.journal import Delta
    from graphlint.interp.machine import Machine


def branch(m: Machine, arms: list[Callable[[], str]]) -> str:
    """Runs every arm from the present state and joins their effects; how the whole ends."""
    deltas: list[Delta] = []
    returned: list[Delta] = []
    ends: list[str] = []
    m.journalling += 1
    m.conditions += 1
    captures = m.region, list(m.region_stack)
    after = captures
    since = m.uncertain_since
    try:
        for arm in arms:
            mark = len(m.journal)
            # An arm that ends a capture and leaves does not end it for the others.
            m.region, m.region_stack = captures[0], list(captures[1])
            m.uncertain_since = next(ids)
            end = arm()
            if end not in ("return", "raise"):
                after = m.region, m.region_stack
            delta = m.rollback(mark)
            ends.append(end)
            if end == "return":
                returned.append(delta)
            elif end != "raise":
                deltas.append(delta)
    finally:
        m.uncertain_since = since
        m.conditions -= 1
        m.journalling -= 1
        if not m.journalling:
            m.journal.clear()
    m.region, m.region_stack = after
    if deltas:
        m.merge(deltas)
        m.stack[-1].deltas += returned
        falling = [e for e in ends if e not in ("return", "raise")]
        return falling[0] if len(set(falling)) == 1 else ""
    if returned:
        m.merge(returned)
        return "return"
    return "raise"


def note_branch(m: Machine, node: tree.Expr, test: Value, taken: bool, body: tuple[tree.Stmt, ...] | tree.Expr) -> None:
    first, last = (body[0], body[-1]) if isinstance(body, tuple) and body else (body, body)
    extent = None
    if not isinstance(first, tuple) and not isinstance(last, tuple):
        end = end_of(last)
        extent = Span(first.span.line, first.span.column, end.end_line, end.end_column)
    m.emit(Branch, node.span, taken=taken, value=test, text=spelled(node), body=extent)


def end_of(node: tree.Node) -> Span:
    """The span of the last line of a statement: a block's own span is its header."""
    for part in ("final", "orelse", "body"):
        inner = getattr(node, part, None)
        if isinstance(inner, tuple) and inner:
            return end_of(inner[-1])
    return node.span


def if_(m: Machine, node: tree.If) -> str:
    return decide(m, node, "if", m.run)


def if_expression(m: Machine, node: tree.IfExp) -> Value:
    values: list[Value] = []

    def go(body: tree.Expr) -> str:
        values.append(m.eval(body))
        return ""

    decide(m, node, "ternary", go)
    return join(*values)


def decide(m: Machine, node: tree.If | tree.IfExp, how: str, go: Callable[[Any], str]) -> str:
    """Asks the test and goes the way that it says; both ways, from the same state, where that is not known."""
    test = m.eval(node.test)
    known = truth(m, test, how, node.test)
    if known is None and settling.settled(m, node):
        known = False
    if m.loops and isinstance(test, (Const, Host)):
        known = further.answer(m, node, test, known)
    start = until = len(m.life)

    def arm(taken: bool) -> str:
        nonlocal until
        body = node.body if taken else node.orelse
        if known is None:
            narrow(m, node.test, taken)
        note_branch(m, node.test, test, taken, body)
        how = go(body)
        until = len(m.life) if taken else until
        return how

    end = arm(known) if known is not None else branch(m, [lambda: arm(True), lambda: arm(False)])
    settling.note(m, node, start, until)
    return end


def match_(m: Machine, node: tree.Match) -> str:
    subject = m.eval(node.subject)
    arms: list[Callable[[], str]] = []
    sure = False
    for case in node.cases:
        for pattern in case.values:
            value = m.eval(pattern)
            compared = operators.compare(
                m, "==", subject, value, tree.Compare(node.span, node.subject, ("==",), (pattern,))
            )
            truth(m, compared, "match", node.subject)

        def go(case: tree.Case = case) -> str:
            for name in case.names:
                execute.assign(m, tree.Name(case.span, name), subject if case.irrefutable else Unknown(name), case.span)
            if case.guard is not None:
                truth(m, m.eval(case.guard), "if", case.guard)
            return m.run(case.body)

        arms.append(go)
        sure = sure or (case.irrefutable and case.guard is None)
    if not sure:
        arms.append(lambda: "")
    return branch(m, arms)


def for_(m: Machine, node: tree.For) -> str:
    source = m.eval(node.iter)
    items, exact = iteration.iterate(m, source, node.iter)
    items = m.rounds(items, exact)
    if not items:
        return m.run(node.orelse)
    m.emit(Iterate, node.span, value=source)
    m.loop_ids += 1
    loop, saved = m.loop_ids, m.loops
    end = ""
    if not exact:
        m.inexact.add(loop)
        if not saved and m.region is None and len(items) == 2:
            # Once more: what the second round captured, the third replays.
            items = [*items, items[-1]]
    elif iteration.shortened(source, items):
        m.shortened.add(loop)
    since = m.uncertain_since
    runs_on = loop in m.inexact or loop in m.shortened
    starts: list[int] = []
    rounds = list(items)
    try:
        for index, item in enumerate(rounds):  # which may become one more
            m.loops = (*saved, (loop, min(index, 1)))
            starts.append(len(m.life))
            if runs_on and (index or len(items) == 1):
                m.uncertain_since = next(ids)
            execute.assign(m, node.target, item, node.target.span, "for")
            end = m.run(node.body)
            if end in ("return", "raise"):
                # Unknown length: the loop may also have ended before.
                return end if exact and index == 0 else ""
            if end == "break":
                break
            if runs_on and index == len(items) - 1 and further.wanted(m, starts):
                rounds.append(item)
    finally:
        m.loops, m.uncertain_since = saved, since
    return "" if end == "break" else m.run(node.orelse)


def while_(m: Machine, node: tree.While) -> str:
    m.loop_ids += 1
    loop, saved = m.loop_ids, m.loops
    end = ""
    m.inexact.add(loop)
    since = m.uncertain_since
    starts: list[int] = []
    share = 3 if not saved and m.region is None else 2
    drain: draining.Drain | None = None
    known: bool | None = None
    try:
        for index in range(draining.ITEMS + 1):
            if drain is None and index >= share and (index > share or not further.wanted(m, starts)):
                break
            m.loops = (*saved, (loop, min(index, 1)))
            starts.append(len(m.life))
            if index and drain is None:
                m.uncertain_since = next(ids)
            test = m.eval(node.test)
            known = truth(m, test, "while", node.test)
            note_branch(m, node.test, test, known is not False, node.body if known is not False else ())
            if known is False:
                break
            if not index and known and (container := draining.emptied(m, node, test)) is not None:
                drain = draining.Drain(m, loop, container)
                m.inexact.discard(loop)
            may_end: list[Callable[[], str]] = [lambda: m.run(node.body), lambda: ""]
            end = branch(m, may_end) if known is None else m.run(node.body)
            if end in ("return", "raise"):
                return end
            if end == "break":
                break
            if drain is not None and not drain.goes_on():
                drain.end(False)
                drain = None
                m.inexact.add(loop)
    finally:
        m.loops, m.uncertain_since = saved, since
        if drain is not None:
            drain.end(known is False)
    return "" if end == "break" else m.run(node.orelse)
