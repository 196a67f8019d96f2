# SPDX-License-Identifier: MIT
"""The acts of programs that use memory: allocate, copy, fill, view, export, close, order."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np

from . import values
from .call import Call, argument, calling, short, stream_words
from .world import World


def allocate(world: World, rng: random.Random) -> Call:
    """Memory of a resource; seldom of rows with a pitch."""
    if rng.random() < 0.05:
        rows = (values.nbytes(rng), rng.choice([0, 1, 7, 64, -1]))
        return calling(world.draw(rng, "resources"), "allocate_pitched", rows, stream_words(world, rng))
    words = stream_words(world, rng)
    if rng.random() < 0.1:
        words["alignment"] = rng.choice([1, 3, 256, 4096, 1 << 20, 0, -8, "1 KiB"])
    return calling(world.draw(rng, "resources"), "allocate", (values.nbytes(rng),), words)


def empty(world: World, rng: random.Random) -> Call:
    """Typed memory in one call."""
    words = stream_words(world, rng)
    if rng.random() < 0.3:
        words["resource"] = world.draw(rng, "resources")
    return calling(world.pm, "empty", (values.shape(rng), rng.choice(values.DTYPES)), words)


def copy(world: World, rng: random.Random) -> Call:
    """A copy: mostly of one size, so that it succeeds more often than it is refused."""
    words = stream_words(world, rng)
    if rng.random() < 0.3:
        return calling(world.pm, "copy", (world.memory(rng), world.memory(rng)), words)
    dst, src = world.draw(rng, "buffers"), world.draw(rng, "buffers")

    def both() -> Any:
        size = min(dst.nbytes, src.nbytes)
        return world.pm.copy(dst[:size], src[:size], **words)

    return f"copy({short(dst)}, {short(src)}) of the smaller size", both


def copy_rows(world: World, rng: random.Random) -> Call:
    """Copies and fills of rows and of slices."""
    pitched = world.draw(rng, "pitched")
    words = {
        name: rng.choice([0, 1, 1, 7, 7, 64, 300, -1]) for name in ("width", "height", "depth") if rng.random() < 0.7
    }
    name = rng.choice(["copy_2d", "copy_3d", "fill_2d"])
    if name == "fill_2d":
        return calling(world.pm, name, (pitched, rng.choice([0, 255, 256])), stream_words(world, rng))
    if name == "copy_2d":
        words.pop("depth", None)
    ends = [pitched, rng.choice([pitched, world.memory(rng)])]
    rng.shuffle(ends)
    return calling(world.pm, name, tuple(ends), words | stream_words(world, rng))


def fill(world: World, rng: random.Random) -> Call:
    """A fill, of a byte or of what is none."""
    value = rng.choice([0, 255, 17, -1, 256, 1.5])
    return calling(world.draw(rng, rng.choice(["buffers", "views"])), "fill", (value,), stream_words(world, rng))


def slice_of(world: World, rng: random.Random) -> Call:
    """A part of a buffer or of a view."""
    target = world.draw(rng, rng.choice(["buffers", "views"]))
    ends = [rng.choice([None, 0, 1, 100, -1, 5000]) for _ in range(2)]
    key: Any = slice(*ends) if rng.random() < 0.9 else values.evil(rng)
    return f"{short(target)}[{short(key)}]", lambda: target[key]


def view(world: World, rng: random.Random) -> Call:
    """A view of a buffer's memory."""
    return calling(world.draw(rng, "buffers"), "view", (rng.choice(values.DTYPES),), {})


def touch(world: World, rng: random.Random) -> Call:
    """The CPU writes and reads memory that it reaches."""
    target = world.draw(rng, rng.choice(["views", "buffers"]))

    def write() -> Any:
        found = np.asarray(target)
        if found.size and found.flags.writeable and found.dtype != object:
            found.reshape(-1)[-1] = 1
        return found if rng.random() < 0.2 else None

    return f"np.asarray({short(target)})", write


def export(world: World, rng: random.Random) -> Call:
    """Asks a view for memory, as NumPy and DLPack do."""
    name = rng.choice(["__dlpack__", "__dlpack_device__", "__array__", "to_numpy"])
    words = {"max_version": (1, rng.randrange(4))} if name == "__dlpack__" and rng.random() < 0.7 else {}
    return calling(world.draw(rng, "views"), name, (), words)


def take_in(world: World, rng: random.Random) -> Call:
    """Memory of others, and of portamem's own by way of DLPack."""
    where = rng.choice(["views", "host", "anywhere"])
    made = values.host_memory(rng) if where == "host" else argument(world, rng)
    if where == "views":
        made = world.draw(rng, "views")
    return calling(world.pm, rng.choice(["from_dlpack", "asarray"]), (made,), {})


def close(world: World, rng: random.Random) -> Call:
    """Closes an object, which mostly nothing else reaches any longer."""
    name = rng.choice(["buffers", "buffers", "pitched", "views", "streams", "events", "resources", "registrations"])
    target = world.draw(rng, name) if rng.random() < 0.3 else world.take_out(rng, name)
    words = stream_words(world, rng) if name in ("buffers", "pitched") else {}
    return calling(target, "close", (), words)


def drop(world: World, rng: random.Random) -> Call:
    """Lets go of an object without closing it."""
    name = rng.choice(["buffers", "views", "events", "streams", "others", "resources", "registrations", "pitched"])

    def let_go() -> None:
        world.take_out(rng, name)

    return f"drop one of {name}", let_go


def release_and_return(world: World, rng: random.Random) -> Call:
    """The one proper use of release(): the memory goes back by its resource, behind the work that uses it.

    The buffer is one that no other thread knows, and so none queues work on the memory once it has gone back."""
    resource, stream, nbytes = world.draw(rng, "resources"), world.draw(rng, "streams"), rng.choice([0, 1, 5000])

    def both() -> None:
        buf = resource.allocate(nbytes, stream=stream)
        buf.fill(1, stream=stream)
        address = buf.release()
        try:
            resource.deallocate(address, nbytes, stream=stream)
        except Exception:  # another thread has closed the stream, or captures: the memory is still out
            give_back_later(world, resource, address, nbytes)
            raise

    return f"{short(resource)}: release() and deallocate() of {nbytes} bytes on {short(stream)}", both


def give_back_later(world: World, resource: Any, address: int, nbytes: int) -> None:
    """Until the resource takes it: what another thread captures may forbid that for a while."""
    refused: Exception | None = None
    for _ in range(10_000):
        try:
            world.synchronize()
            resource.deallocate(address, nbytes, stream=resource.device.default_stream)
            return
        except Exception as error:
            refused = error
            time.sleep(0.001)
    raise AssertionError(f"memory cannot be given back: {refused}")


def wrong_free(world: World, rng: random.Random) -> Call:
    """An address that the resource never gave."""
    ptr = rng.choice([0, 1, -1, 2**64, 2**63, "x", None])
    return calling(world.draw(rng, "resources"), "deallocate", (ptr, values.nbytes(rng)), stream_words(world, rng))


def order(world: World, rng: random.Random) -> Call:
    """Streams and events."""
    stream, other = world.draw(rng, "streams"), world.draw(rng, rng.choice(["streams", "events"]))
    name = rng.choice(["wait", "record", "query", "synchronize", "launch_host_func"])
    if name == "launch_host_func":
        return calling(stream, name, (lambda: None,), {})
    if name == "record" and world.sort_of(other) != "events":
        other = None
    return calling(stream, name, (other,) if name in ("wait", "record") else (), {})


def trim(world: World, rng: random.Random) -> Call:
    """A pool gives back what is free."""
    args = () if rng.random() < 0.5 else (values.nbytes(rng),)
    return calling(world.draw(rng, "resources"), "trim", args, {})
