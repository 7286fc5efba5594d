"""Copies that do not fill a static input: refused, repeated, cut, or with a stale rest."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint.fact import Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Tensor

from .calls import inputs_of_call
from .copies import cut, last_batch, refused, repeated
from .tails import stale_tails


@rule("GL007", "shape-mismatch-copy", "error", "what is copied into a static input does not fill it")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "compile":
        return
    seen: set[tuple[object, int]] = set()
    for fact in region.after:
        if (
            isinstance(fact, Write)
            and fact.region is None
            and isinstance(fact.target, Tensor)
            and fact.target.storage in region.inputs
        ):
            message = refused(fact) or repeated(region, fact) or last_batch(region, fact) or cut(region, fact)
            if message and (fact.at, 0) not in seen:
                seen.add((fact.at, 0))
                yield _problem(region, fact, message)
        for copy in inputs_of_call(region, fact):
            message = refused(copy) or repeated(region, copy) or last_batch(region, copy)
            if message and (fact.at, 0) not in seen:
                seen.add((fact.at, 0))
                message = message.replace("static input", "sample input")
                yield Problem(fact.at, message, region.way(fact), function=fact.function)
    for fact in stale_tails(region):
        if (fact.at, 1) not in seen:
            seen.add((fact.at, 1))
            text = fact.text.removesuffix("()").removesuffix(".copy_").removesuffix(".fill_")
            yield _problem(
                region,
                fact,
                f"only `{text}` is written: the rest still holds an earlier batch, and the graph reads it; "
                "reset the rest too",
            )


def _problem(region: Region, fact: Write, message: str) -> Problem:
    assert isinstance(fact.target, Tensor)
    read = region.inputs[fact.target.storage]
    notes = (*region.way(read), Note(read.at, "read by the graph here"))
    return Problem(fact.at, message, notes[:5], function=fact.function)
