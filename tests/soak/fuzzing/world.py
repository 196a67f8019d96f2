# SPDX-License-Identifier: MIT
"""The objects that are alive in one process of the fuzzer; threads share them."""

from __future__ import annotations

import gc
import random
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import values

#: The number of each that is kept: a new one takes the place of a random old one, which is dropped or closed.
ROOM = {
    "buffers": 48,
    "pitched": 6,
    "views": 32,
    "streams": 8,
    "events": 12,
    "resources": 24,
    "registrations": 6,
    "others": 24,
}


class World:
    """Objects of the API by what they are, drawn at random and replaced at random."""

    def __init__(self, pm: Any, folder: Path) -> None:
        self.pm, self.folder = pm, folder
        self.devices = list(pm.devices())
        self.alive: dict[str, list[Any]] = {name: [] for name in ROOM}
        self._lock = threading.Lock()
        self._logs = 0

    def sort_of(self, made: Any) -> str | None:
        """The list that an object belongs to; None for what is no object of portamem's."""
        pm = self.pm
        kinds = {
            "pitched": pm.PitchedBuffer, "buffers": pm.Buffer, "views": pm.View, "streams": pm.Stream,
            "events": pm.Event, "resources": pm.MemoryResource, "registrations": pm.HostRegistration,
        }  # fmt: skip
        for name, kind in kinds.items():
            if isinstance(made, kind):
                return name
        return "others" if isinstance(made, (memoryview, np.ndarray)) or type(made).__name__ == "PyCapsule" else None

    def keep(self, rng: random.Random, made: Any) -> None:
        """Takes the object in. What has to go for it goes after the lock, since it may run portamem's code."""
        if isinstance(made, (list, tuple)):
            for each in made[:4]:
                self.keep(rng, each)
            return
        name = self.sort_of(made)
        if name is None:
            return
        gone = None
        with self._lock:
            room = self.alive[name]
            if any(each is made for each in room):
                return
            if len(room) >= ROOM[name]:
                gone = room.pop(rng.randrange(len(room)))
            room.append(made)
        if gone is not None and rng.random() < 0.5 and hasattr(gone, "close"):
            gone.close()

    def take_out(self, rng: random.Random, name: str) -> Any:
        with self._lock:
            room = self.alive[name]
            return room.pop(rng.randrange(len(room))) if room else None

    def draw(self, rng: random.Random, name: str) -> Any:
        with self._lock:
            room = self.alive[name]
            return rng.choice(room) if room else None

    def anything(self, rng: random.Random) -> Any:
        """Any object of the API."""
        if rng.random() < 0.1:
            return rng.choice(self.devices)
        return self.draw(rng, rng.choice(list(ROOM)))

    def object_of_api(self, rng: random.Random) -> Any:
        """An object whose class is portamem's; None where there is none of the kind that was drawn."""
        if rng.random() < 0.1:
            return rng.choice(self.devices)
        return self.draw(rng, rng.choice([name for name in ROOM if name != "others"]))

    def memory(self, rng: random.Random) -> Any:
        """Draws an object that a copy takes."""
        sort = rng.choice(["buffers", "buffers", "views", "host", "registrations", "others", "odd"])
        if sort == "host":
            return values.host_memory(rng)
        return values.odd_memory(rng) if sort == "odd" else self.draw(rng, sort)

    def log_file(self) -> Path:
        with self._lock:
            self._logs += 1
            return self.folder / f"log-{self._logs % 4}.csv"

    def synchronize(self) -> None:
        """Waits for the work of all devices."""
        for device in self.devices:
            device.synchronize()

    def end(self) -> None:
        """Lets go of everything, and waits until the work that uses it is done."""
        for name in ("others", "registrations", "views", "pitched", "buffers", "events", "streams", "resources"):
            self.alive[name].clear()
        for device in self.devices:
            self.pm.set_default_resource(device, None)  # a call at random may have set another
        self.synchronize()
        gc.collect()

    def held(self) -> dict[str, int]:
        """The bytes that portamem holds of each device and of the host, without the default resources' idle memory.

        Asked again for a while, since work that has just run is let go of by another thread."""
        places = ("host", *range(len(self.devices)))
        for _ in range(100):
            for device in self.devices:
                self.pm.default_resource(device).trim()
            held = {str(place): self.pm.held(place) for place in places}
            if not any(held.values()):
                break
            time.sleep(0.02)
        return held
