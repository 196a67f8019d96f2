# SPDX-License-Identifier: MIT
"""Drops of dye that drift over a periodic square, blur and fade: first-order upwind on blocks of several sizes.

Every array is the solver's own, from its Memory: the state, which is made anew in each step, the scratch arrays of each
level, and the index arrays of each mesh. As blocks come and go, all of them grow and shrink.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

import mesh as meshes
import numpy as np
from memory import Array, Memory
from mesh import Block, Mesh

SPEED = (1.0, 0.6)
LEFT = 0.95  # of the dye, by each step: a drop is gone before the next but two has come
ROUGH, SMOOTH = 0.02, 0.004  # how much a block's values may differ before it is split, and below which four are one
REGRID_EVERY, DROP_EVERY = 4, 30
DROP_RADIUS = 0.06


class Solver:
    """The simulation on one Memory. ``xp``: NumPy, or CuPy where the arrays are on a device."""

    def __init__(self, xp: Any, memory: Memory, base: int, cells: int, levels: int) -> None:
        self.xp, self.memory, self.levels = xp, memory, levels
        self.mesh = meshes.uniform(base, cells)
        self.state = memory.array(self.shape(self.mesh)).set(np.zeros(self.shape(self.mesh)))
        self.edges = self.edge_cells()
        finest = self.mesh.width(levels - 1)
        self.dt = 0.4 * finest / sum(SPEED)
        self.steps = self.regrids = self.drops = 0
        self.most_blocks = 0
        self.worst = 0.0
        """The largest relative error of the dye's amount over one step, against what fading leaves of it."""

    @staticmethod
    def shape(mesh: Mesh) -> tuple[int, int, int]:
        return len(mesh.blocks), mesh.cells, mesh.cells

    def close(self) -> None:
        self.state.close()
        self.edges.close()

    # What is done in each step.

    def step(self) -> None:
        if self.steps % DROP_EVERY == 0:
            self.drop()
        elif self.steps % REGRID_EVERY == 0:
            self.regrid()
        before = self.amount()
        new = self.memory.array(self.state.shape)
        for level, blocks in self.mesh.levels():
            self.advance(level, blocks, self.state.data, new.data, self.edges.data)
        self.state.close()
        self.state = new
        self.steps += 1
        self.worst = max(self.worst, abs(self.amount() / (before * LEFT) - 1.0))

    def advance(self, level: int, blocks: slice, old: Any, new: Any, edges: Any) -> None:
        """One level's cells, by the flow in along x and along y."""
        xp, cells = self.xp, self.mesh.cells
        count = blocks.stop - blocks.start
        with (
            self.memory.array((count, cells)) as first,
            self.memory.array((count, cells)) as second,
            self.memory.array((count, cells, cells)) as inflow,
        ):
            q, out = old[blocks], new[blocks]
            out[...] = q
            for side, speed in enumerate(SPEED):
                a, b, change = first.data, second.data, inflow.data
                xp.take(old.reshape(-1), edges[side, 0, blocks], out=a)
                xp.take(old.reshape(-1), edges[side, 1, blocks], out=b)
                a += b
                a *= 0.5
                if side == 0:
                    xp.subtract(q[:, :, :-1], q[:, :, 1:], out=change[:, :, 1:])
                    xp.subtract(a, q[:, :, 0], out=change[:, :, 0])
                else:
                    xp.subtract(q[:, :-1, :], q[:, 1:, :], out=change[:, 1:, :])
                    xp.subtract(a, q[:, 0, :], out=change[:, 0, :])
                change *= speed * self.dt / self.mesh.width(level)
                out += change
                del a, b, change
            out *= LEFT

    # What changes the mesh.

    def regrid(self) -> None:
        """Splits blocks in which the dye is uneven, and puts together those in which it is not."""
        low, high = self.extremes()
        index = self.mesh.index

        def refine(block: Block) -> bool:
            return bool(block[0] + 1 < self.levels and high[index[block]] - low[index[block]] > ROUGH)

        def coarsen(siblings: list[Block]) -> bool:
            some = [index[block] for block in siblings]
            return bool(high[some].max() - low[some].min() < SMOOTH)

        self.change_to(meshes.adapted(self.mesh, refine, coarsen))
        self.regrids += 1

    def extremes(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The least and the greatest value in each block."""
        count = len(self.mesh.blocks)
        with self.memory.array((count,)) as low, self.memory.array((count,)) as high:
            # Not by `out`: some CuPy cannot compare it with NumPy's newer types.
            low.data[...] = self.xp.amin(self.state.data, axis=(1, 2))
            high.data[...] = self.xp.amax(self.state.data, axis=(1, 2))
            return low.get(), high.get()

    def change_to(self, mesh: Mesh) -> None:
        if mesh.blocks == self.mesh.blocks:
            return
        indices = meshes.origins(self.mesh, mesh)
        new = self.memory.array(self.shape(mesh))
        with self.memory.array(indices.shape, "int32").set(indices) as origins:
            self.gather(self.state.data.reshape(-1), origins.data, new.data)
        self.close()
        self.mesh, self.state = mesh, new
        self.edges = self.edge_cells()
        self.most_blocks = max(self.most_blocks, len(mesh.blocks))

    def gather(self, old: Any, origins: Any, new: Any) -> None:
        with self.memory.array(new.shape) as other, self.memory.array(new.shape) as pair:
            one, two = other.data, pair.data
            for first, second, out in ((0, 1, new), (2, 3, one)):
                self.xp.take(old, origins[first], out=out)
                self.xp.take(old, origins[second], out=two)
                out += two
            new += one
            new *= 0.25
            del one, two, out

    def edge_cells(self) -> Array:
        indices = meshes.upwind(self.mesh)
        return self.memory.array(indices.shape, "int32").set(indices)

    def drop(self) -> None:
        """A new drop, where the mesh is made fine first."""
        at = (0.2 + 0.37 * self.drops) % 1.0, (0.3 + 0.23 * self.drops) % 1.0
        self.drops += 1

        def near(block: Block) -> bool:
            level, i, j = block
            half = 0.5 / (self.mesh.base << level)
            return level + 1 < self.levels and all(
                abs((((2 * k + 1) * half - c) + 0.5) % 1.0 - 0.5) < half + 1.5 * DROP_RADIUS
                for k, c in zip((i, j), at, strict=True)
            )

        for _ in range(self.levels - 1):
            self.change_to(meshes.adapted(self.mesh, near, lambda siblings: False))
        x, y = meshes.centres(self.mesh, slice(None))
        distance = [np.abs((c - a + 0.5) % 1.0 - 0.5) for c, a in ((x, at[0]), (y, at[1]))]
        dye = np.exp(-(distance[0] ** 2 + distance[1] ** 2) / DROP_RADIUS**2 * 4.0)
        with self.memory.array(self.state.shape).set(dye) as drop:
            self.add(drop.data, self.state.data)

    @staticmethod
    def add(what: Any, to: Any) -> None:
        to += what

    # What is asked of it.

    def amount(self) -> float:
        """Of dye, over the whole square."""
        state = self.state.data
        parts = [float(self.xp.sum(state[b])) * self.mesh.width(level) ** 2 for level, b in self.mesh.levels()]
        return math.fsum(parts)

    def checksum(self) -> str:
        """Of every bit of the state, and of the mesh that it is on."""
        return hashlib.sha256(repr(self.mesh.blocks).encode() + self.state.get().tobytes()).hexdigest()[:16]
