"""Device memory of the emulated GPU: a stretch of CPU addresses, handed out as CUDA's caching allocator does.

Glossary:
    arena    one reserved range of addresses; an address in it is device memory.
    segment  what the allocator asks the driver for (2 MB for small blocks, 20 MB or more for large ones).
    block    a piece of a segment: in use, or free and waiting to be handed on with its old content.
    pool     the blocks of all graphs that share a memory pool; pool 0 is eager memory.

Because addresses are real, what a GPU does with freed memory happens here too: a graph goes on reading an address
whose block was handed to somebody else, and graphs of one pool overwrite each other's scratch.
Sizes follow c10/cuda/CUDACachingAllocator: blocks are rounded to 512 bytes, the smallest free block that fits is
taken, a remainder stays free, neighbours merge. Free blocks belong to the stream they were made on.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left, insort
from collections.abc import Callable
from dataclasses import dataclass, field

ROUND = 512
SMALL = 1 << 20
SMALL_SEGMENT = 2 << 20
LARGE_SEGMENT = 20 << 20
MIN_LARGE = 10 << 20
ROUND_LARGE = 2 << 20
_PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS_NORESERVE, _DONTNEED = 3, 0x2 | 0x20 | 0x4000, 4

PoolId = tuple[int, int]
EAGER: PoolId = (0, 0)


class OutOfMemory(Exception):
    """The arena's capacity is used up."""


@dataclass(slots=True, eq=False)
class Segment:
    start: int
    size: int
    pool: PoolId
    small: bool


@dataclass(slots=True, eq=False)
class Block:
    start: int
    size: int
    segment: Segment
    stream: int
    used: bool = False
    wanted: int = 0
    """Bytes asked for; `size` is rounded."""
    before: Block | None = None
    after: Block | None = None


@dataclass(slots=True, eq=False)
class Pool:
    """`users` counts graphs that captured into it and were not reset."""

    id: PoolId
    users: int = 0
    free: dict[tuple[int, bool], list[tuple[int, int, Block]]] = field(default_factory=dict)
    """Of each stream and size class, the free blocks as (size, start, block), smallest first."""
    segments: list[Segment] = field(default_factory=list)

    def add(self, block: Block) -> None:
        insort(self.free.setdefault((block.stream, block.segment.small), []), (block.size, block.start, block))

    def remove(self, block: Block) -> None:
        blocks = self.free[block.stream, block.segment.small]
        del blocks[bisect_left(blocks, (block.size, block.start))]

    def fit(self, size: int, stream: int, small: bool) -> Block | None:
        """Takes the smallest free block that holds `size` bytes."""
        blocks = self.free.get((stream, small), [])
        place = bisect_left(blocks, (size,))
        return blocks.pop(place)[2] if place < len(blocks) else None


class Arena:
    """Hands out device memory.

    Args:
        capacity: bytes of the emulated device.
    """

    def __init__(self, capacity: int = 1 << 37) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        self.capacity = capacity
        reserve = capacity * 2
        base = self._libc.mmap(None, reserve, _PROT_READ_WRITE, _MAP_PRIVATE_ANONYMOUS_NORESERVE, -1, 0)
        if base in (None, ctypes.c_void_p(-1).value):
            raise OutOfMemory("cannot reserve address space for emulated device memory")
        self.base = (int(base) + ROUND_LARGE - 1) // ROUND_LARGE * ROUND_LARGE
        self.end = int(base) + reserve
        self._next = self.base
        self._returned: list[tuple[int, int]] = []
        self.pools: dict[PoolId, Pool] = {EAGER: Pool(EAGER)}
        self.used: dict[int, Block] = {}
        self.allocated = self.reserved = self.peak_allocated = self.peak_reserved = 0
        self.may_grow: Callable[[int], None] = lambda stream: None
        """Called before a new segment is asked for: a driver call that a capture may refuse."""
        self._changing = False
        self._gone: list[Block] = []
        """Given back while blocks are being joined or cut: Python may collect garbage at any point of that."""

    def contains(self, address: int) -> bool:
        return self.base <= address < self.end

    def allocate(self, size: int, stream: int, pool: PoolId = EAGER) -> Block:
        """A block of at least `size` bytes for work on `stream`.

        Raises:
            OutOfMemory: the device is full.
        """
        outer, self._changing = self._changing, True
        try:
            return self._cut(size, stream, pool)
        finally:
            self._changing = outer
            if not outer:
                self._settle()

    def _cut(self, size: int, stream: int, pool: PoolId) -> Block:
        rounded = max(ROUND, -(-size // ROUND) * ROUND)
        owner = self.pools[pool]
        small = rounded <= SMALL
        best = owner.fit(rounded, stream, small) or self._grow(rounded, small, stream, owner)
        rest = best.size - rounded
        if rest >= (ROUND if small else SMALL + 1):
            tail = Block(best.start + rounded, rest, best.segment, stream, before=best, after=best.after)
            if best.after is not None:
                best.after.before = tail
            best.after, best.size = tail, rounded
            owner.add(tail)
        best.used, best.wanted = True, size
        self.used[best.start] = best
        self.allocated += best.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return best

    def _grow(self, rounded: int, small: bool, stream: int, owner: Pool) -> Block:
        self.may_grow(stream)
        size = (
            SMALL_SEGMENT
            if small
            else LARGE_SEGMENT
            if rounded < MIN_LARGE
            else -(-rounded // ROUND_LARGE) * ROUND_LARGE
        )
        if self.reserved + size > self.capacity:
            raise OutOfMemory(f"tried to allocate {size / 2**20:.2f} MiB")
        segment = Segment(self._address(size), size, owner.id, small)
        owner.segments.append(segment)
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return Block(segment.start, size, segment, stream)

    def _address(self, size: int) -> int:
        for place, (start, length) in enumerate(self._returned):
            if length == size:
                del self._returned[place]
                return start
        start, self._next = self._next, self._next + size
        return start

    def release(self, block: Block) -> None:
        """Gives a block back; its content stays until somebody writes over it."""
        self._gone.append(block)
        if not self._changing:
            self._settle()

    def _settle(self) -> None:
        while self._gone:
            self._changing = True
            try:
                self._join(self._gone.pop())
            finally:
                self._changing = False

    def _join(self, block: Block) -> None:
        if not block.used:
            return
        block.used = False
        del self.used[block.start]
        self.allocated -= block.size
        owner = self.pools[block.segment.pool]
        for near, first in ((block.before, True), (block.after, False)):
            if near is None or near.used:
                continue
            owner.remove(near)
            if first:
                block.start, block.before = near.start, near.before
                if near.before is not None:
                    near.before.after = block
            else:
                block.after = near.after
                if near.after is not None:
                    near.after.before = block
            block.size += near.size
        owner.add(block)

    def empty_cache(self) -> None:
        """Returns segments that are wholly free: those of eager memory and of pools that no graph uses any more."""
        self._changing = True
        try:
            self._empty()
        finally:
            self._changing = False
            self._settle()

    def _empty(self) -> None:
        for pool in list(self.pools.values()):
            if pool.id != EAGER and pool.users:
                continue
            for block in [b for blocks in pool.free.values() for _, _, b in blocks if b.size == b.segment.size]:
                pool.remove(block)
                pool.segments.remove(block.segment)
                self._returned.append((block.segment.start, block.segment.size))
                self.reserved -= block.segment.size
                if block.size >= LARGE_SEGMENT:
                    self._libc.madvise(block.start, block.size, _DONTNEED)
            if pool.id != EAGER and not pool.segments:
                del self.pools[pool.id]

    def mapped(self, address: int) -> bool:
        """False for an address whose segment was given back to the driver."""
        return not any(start <= address < start + size for start, size in self._returned)
