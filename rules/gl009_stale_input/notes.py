"""How a stale input is told: where it was captured, where it is replayed, how the line was reached."""

from __future__ import annotations

from graphlint import places
from graphlint.fact import Fact
from graphlint.finding import Note, Problem
from graphlint.region import Region


def problem(region: Region, fact: Fact, message: str) -> Problem:
    notes = [Note(region.at, "captured here")]
    replay = places.next_replay(region, fact)
    if replay is not None:
        notes.append(Note(replay.at, "replayed here"))
    notes += [Note(frame.at, f"`{frame.function}` called here") for frame in fact.chain[-2:]]
    return Problem(fact.at, message, tuple(notes[:5]), function=fact.function)
