# SPDX-License-Identifier: MIT
"""Which blocks there are: a quadtree over a periodic square, two neighbours at most one level apart.

A block is ``(level, i, j)``: its level, 0 the coarsest, and its place among the blocks of that level along x and y. It
holds N x N cells, whatever its level. Everything here is on the host and knows of no memory resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Block = tuple[int, int, int]
Indices = np.ndarray[tuple[int, ...], np.dtype[np.int32]]


@dataclass(frozen=True)
class Mesh:
    """The leaves of the tree in order of their levels, so that each level is one slice of the state."""

    base: int  # blocks along a side of the square, on level 0
    cells: int  # cells along a side of a block, even
    blocks: tuple[Block, ...]

    @cached_property
    def index(self) -> dict[Block, int]:
        return {block: number for number, block in enumerate(self.blocks)}

    def levels(self) -> Iterator[tuple[int, slice]]:
        """Each level that has blocks, with its slice."""
        begin = 0
        while begin < len(self.blocks):
            level = self.blocks[begin][0]
            end = begin + sum(1 for block in self.blocks[begin:] if block[0] == level)
            yield level, slice(begin, end)
            begin = end

    def width(self, level: int) -> float:
        """Of a cell."""
        return 1.0 / (self.base * self.cells << level)

    def around(self, level: int, i: int, j: int) -> Block:
        """The block at a place that may lie across the square's edge."""
        side = self.base << level
        return level, i % side, j % side


def uniform(base: int, cells: int) -> Mesh:
    return Mesh(base, cells, tuple((0, i, j) for i in range(base) for j in range(base)))


def parent_of(block: Block) -> Block:
    level, i, j = block
    return level - 1, i // 2, j // 2


def children_of(block: Block) -> list[Block]:
    """In the order of the quarters: (0, 0), (1, 0), (0, 1), (1, 1) along (x, y)."""
    level, i, j = block
    return [(level + 1, 2 * i + di, 2 * j + dj) for dj in (0, 1) for di in (0, 1)]


def adapted(mesh: Mesh, refine: Callable[[Block], bool], coarsen: Callable[[list[Block]], bool]) -> Mesh:
    """The mesh of the next steps: no block changes by more than one level, and neighbours differ by one at most.

    ``refine``: whether a block is to become four. ``coarsen``: whether four siblings may become one.
    """
    leaves = set(mesh.blocks)
    to_split = [block for block in mesh.blocks if refine(block)]
    while to_split:
        block = to_split.pop()
        if block not in leaves:
            continue
        leaves.remove(block)
        for child in children_of(block):
            leaves.add(child)
            # What is two levels coarser than a child follows: it was a leaf before, so it changes by one level too.
            to_split += [old for near in neighbours(mesh, child) if (old := parent_of(parent_of(near))) in leaves]
    whole = leaves & set(mesh.blocks)
    for block in sorted(whole, reverse=True):
        level, i, j = block
        siblings = children_of(parent_of(block))
        if level == 0 or i % 2 or j % 2 or not whole.issuperset(siblings) or not leaves.issuperset(siblings):
            continue
        beside = {child for one in siblings for near in neighbours(mesh, one) for child in children_of(near)}
        if leaves.isdisjoint(beside) and coarsen(siblings):
            leaves.difference_update(siblings)
            leaves.add(parent_of(block))
    return Mesh(mesh.base, mesh.cells, tuple(sorted(leaves)))


def neighbours(mesh: Mesh, block: Block) -> list[Block]:
    """The eight places around a block, on its own level."""
    level, i, j = block
    return [mesh.around(level, i + di, j + dj) for dj in (-1, 0, 1) for di in (-1, 0, 1) if di or dj]


def flat(mesh: Mesh, block: int, y: object, x: object) -> np.ndarray[Any, Any]:
    """Where cells are in the whole state."""
    return np.asarray((block * mesh.cells + np.asarray(y)) * mesh.cells + np.asarray(x))


def upwind(mesh: Mesh) -> Indices:
    """For each block its ghost cells to the left and below: the two cells whose mean each of them is.

    Shape (left or below, first or second, block, cell). A neighbour of the same level or a coarser one gives one cell
    twice; a finer one gives the two that lie at the edge of this cell.
    """
    n, index = mesh.cells, mesh.index
    found = np.empty((2, 2, len(mesh.blocks), n), np.int32)
    along, last = np.arange(n), n - 1
    for number, (level, i, j) in enumerate(mesh.blocks):
        for side in (0, 1):
            place = mesh.around(level, i - 1, j) if side == 0 else mesh.around(level, i, j - 1)
            across = (j, i)[side]  # the block's place along its edge

            def cells(block: Block, at: np.ndarray[Any, Any], side: int = side) -> np.ndarray[Any, Any]:
                return flat(mesh, index[block], *((at, last) if side == 0 else (last, at)))

            if place in index:
                first = second = cells(place, along)
            elif parent_of(place) in index:
                first = second = cells(parent_of(place), across % 2 * (n // 2) + along // 2)
            else:
                near = [child for child in children_of(place) if child[1 + side] % 2 == 1]  # its right or upper two
                first, second = (
                    np.concatenate([cells(child, 2 * along[: n // 2] + which) for child in near]) for which in (0, 1)
                )
            found[side, 0, number], found[side, 1, number] = first, second
    return found


def origins(old: Mesh, new: Mesh) -> Indices:
    """For each cell of a new mesh the four cells of the old one whose mean it is. Shape (four, block, y, x)."""
    n, index = new.cells, old.index
    found = np.empty((4, len(new.blocks), n, n), np.int32)
    y, x = np.arange(n)[:, None], np.arange(n)[None, :]
    for number, block in enumerate(new.blocks):
        if block in index:
            found[:, number] = flat(old, index[block], y, x)
        elif parent_of(block) in index:
            _, i, j = block
            of = index[parent_of(block)]
            found[:, number] = flat(old, of, j % 2 * (n // 2) + y // 2, i % 2 * (n // 2) + x // 2)
        else:
            for quarter, child in enumerate(children_of(block)):
                half = n // 2
                rows, columns = (slice(None, half), slice(half, None))[quarter // 2], quarter % 2
                across = slice(None, half) if columns == 0 else slice(half, None)
                for which, (dy, dx) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
                    found[which, number, rows, across] = flat(
                        old, index[child], 2 * y[:half] + dy, 2 * x[:, :half] + dx
                    )
    return found


def centres(mesh: Mesh, blocks: slice) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """x and y of every cell of some blocks, in shape (block, y, x) where broadcast."""
    some = mesh.blocks[blocks]
    at = np.arange(mesh.cells) + 0.5
    x = np.array([(i * mesh.cells + at) * mesh.width(level) for level, i, _ in some])
    y = np.array([(j * mesh.cells + at) * mesh.width(level) for level, _, j in some])
    return x[:, None, :], y[:, :, None]
