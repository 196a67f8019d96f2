# SPDX-License-Identifier: MIT
"""Shows the clauses of copies of boxes."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

from portamem.conformance.checks.copy_order import other_end
from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import pattern

NBYTES = 16384
SOURCE = pattern(NBYTES)
PADDING = b"\xee" * NBYTES


@dataclass(frozen=True)
class Box:
    """A box, and how the two volumes lie in memory."""

    width: int
    height: int
    depth: int
    dst_pitch: int
    src_pitch: int
    dst_rows: int
    src_rows: int

    def moved(self, target: bytes, source: bytes) -> bytes:
        """The bytes that the target should hold after a copy."""
        image = bytearray(target)
        for z in range(self.depth):
            for y in range(self.height):
                to = (z * self.dst_rows + y) * self.dst_pitch
                start = (z * self.src_rows + y) * self.src_pitch
                image[to : to + self.width] = source[start : start + self.width]
        return bytes(image)

    def back(self) -> Box:
        return Box(self.width, self.height, self.depth, self.src_pitch, self.dst_pitch, self.src_rows, self.dst_rows)


BOXES = (
    Box(1, 1, 1, 1, 1, 1, 1),
    Box(1, 3, 5, 2, 7, 4, 3),
    Box(32, 8, 6, 32, 32, 8, 8),
    Box(33, 7, 5, 64, 33, 7, 9),
    Box(100, 3, 9, 100, 128, 11, 5),
    Box(512, 1, 8, 512, 1024, 4, 2),
    Box(64, 16, 16, 64, 64, 16, 16),
)


@check("COPY-22", "COPY-23")
def boxes_of_any_layout(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf, env.resource("device").allocate(NBYTES) as other:
        for box in BOXES:
            for on in (None, stream):
                env.write(other, SOURCE)
                env.write(buf, PADDING)
                done = env.pm.copy_3d(buf, other, **vars(box), stream=on)
                if on is None:
                    expect(done is None, "a blocking copy answers an event")
                else:
                    expect(isinstance(done, env.pm.Event), "a copy on a stream answers no event")
                    done.synchronize()
                image = box.moved(PADDING, SOURCE)
                expect_bytes(env.read(buf), image, f"{box} from device memory")
                env.write(other, PADDING)
                done = env.pm.copy_3d(other, buf, **vars(box.back()), stream=on)
                if on is not None:
                    done.synchronize()
                expect_bytes(env.read(other), box.back().moved(PADDING, image), f"{box}, back to device memory")


@check("COPY-22")
def boxes_of_python_objects(env: Env, resource: Any) -> None:
    stream, box = env.stream(), Box(20, 4, 3, 32, 24, 6, 5)
    with env.allocate(resource, NBYTES) as buf:
        for on in (None, stream):
            env.write(buf, PADDING)
            env.pm.copy_3d(buf, SOURCE, **vars(box), stream=on)
            stream.synchronize()
            image = box.moved(PADDING, SOURCE)
            expect_bytes(env.read(buf), image, "a box from bytes")
            out = bytearray(PADDING)
            env.pm.copy_3d(out, buf, **vars(box.back()), stream=on)
            stream.synchronize()
            expect_bytes(bytes(out), box.back().moved(PADDING, image), "a box to a bytearray")
        env.write(buf, SOURCE)
        tight = bytearray(20 * 4 * 3)
        with buf[1000:] as part:
            env.pm.copy_3d(tight, part, width="20 B", height=4, depth=3, src_pitch=32, src_rows=6)
        expect_bytes(
            bytes(tight),
            Box(20, 4, 3, 20, 32, 4, 6).moved(bytes(240), SOURCE[1000:]),
            "a box out of a larger volume, into memory without padding",
        )


@check("COPY-22")
def volumes_of_pitched_memory(env: Env, resource: Any) -> None:
    width, height, depth, data = 100, 6, 5, pattern(100 * 6 * 5, 1)
    plain = env.resource("device")
    with (
        plain.allocate_pitched(width, height * depth) as volume,
        plain.allocate_pitched(width + 500, 8 * depth) as larger,
        env.allocate(resource, len(data)) as flat,
    ):
        env.write(flat, data)
        volume.fill(0xEE)
        larger.fill(0xEE)
        env.pm.copy_3d(volume, flat, height=height, depth=depth)
        box = Box(width, height, depth, volume.pitch, width, height, height)
        expect_bytes(env.read(volume), box.moved(b"\xee" * volume.nbytes, data), "a volume of pitched memory")
        env.pm.copy_3d(larger, volume, width=width, height=height, depth=depth, dst_rows=8)
        box = Box(width, height, depth, larger.pitch, width, 8, height)
        expect_bytes(env.read(larger), box.moved(b"\xee" * larger.nbytes, data), "a larger one")
        flat.fill(0)
        env.pm.copy_3d(flat, larger, width=width, height=height, depth=depth, src_rows=8)
        expect_bytes(env.read(flat), data, "a volume that went through two pitches")


@check("COPY-23")
def a_box_of_nothing(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, NBYTES) as buf, env.allocate(resource, 0) as empty:
        env.write(buf, PADDING)
        for width, height, depth in ((0, 2, 2), (16, 0, 2), (16, 2, 0), (0, 0, 0)):
            for on in (None, stream):
                for target in (buf, empty):
                    env.pm.copy_3d(target, SOURCE, width=width, height=height, depth=depth, dst_pitch=0, stream=on)
                    env.pm.copy_3d(
                        target, SOURCE, width=width, height=height, depth=depth, src_pitch=0, src_rows=0, stream=on
                    )
        stream.synchronize()
        expect_bytes(env.read(buf), PADDING, "memory to which nothing was copied")
        expect_equal((buf.exports, empty.exports), (0, 0), "exports")


@check("COPY-24")
def boxes_that_do_not_fit(env: Env, resource: Any) -> None:
    fits: dict[str, Any] = {
        "width": 100,
        "height": 4,
        "depth": 3,
        "dst_pitch": 128,
        "src_pitch": 100,
        "dst_rows": 5,
        "src_rows": 4,
    }
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"dst_pitch": 99}, "target's pitch of 99"),
        ({"src_pitch": 99}, "source's pitch of 99"),
        ({"dst_rows": 3}, "target's slices of 3 rows"),
        ({"src_rows": 3}, "source's slices of 3 rows"),
        ({"height": 6}, "target's slices of 5 rows"),
        ({"depth": 4}, "do not fit the target"),
        ({"src_rows": 5}, "do not fit the source"),
        ({"src_pitch": 101}, "do not fit the source"),
        ({"dst_rows": 6}, "do not fit the target"),
        ({"dst_pitch": 137}, "do not fit the target"),
        ({"height": 1 << 62, "src_rows": 1 << 62, "dst_rows": 1 << 62}, "do not fit"),
        ({"depth": 1 << 62}, "do not fit"),
        ({"dst_rows": 1 << 62}, "do not fit the target"),
        ({"dst_pitch": 1 << 62}, "do not fit the target"),
        ({"dst_pitch": 1 << 60, "dst_rows": 16}, "do not fit the target"),
        ({"width": -1}, "negative"),
        ({"height": -1}, "negative"),
        ({"depth": -1}, "negative"),
        ({"src_rows": -1}, "negative"),
        ({"depth": 1 << 70}, "larger than any memory"),
    )
    source = pattern(100 * 4 * 3)
    with resource.allocate(128 * (2 * 5 + 3) + 100) as buf:
        buf.fill(0xEE)
        for given, message in wrong:
            with refused(ValueError, saying=message):
                env.pm.copy_3d(buf, source, **{**fits, **given})
        with refused(ValueError, saying="do not fit the source"):
            env.pm.copy_3d(buf, source[:-1], **fits)
        for name, value in (("height", 1.5), ("depth", None), ("dst_rows", "2"), ("src_pitch", 100.0)):
            with refused(TypeError):
                env.pm.copy_3d(buf, source, **{**fits, name: value})
        for name in ("height", "depth"):
            with refused(TypeError, saying="copy_3d"):
                env.pm.copy_3d(buf, source, **{each: value for each, value in fits.items() if each != name})
        with refused(TypeError, saying="copy_3d needs width"):
            env.pm.copy_3d(buf, source, height=1, depth=1)
        expect_equal(buf.exports, 0, "exports after refusals")
        expect_bytes(env.read(buf), b"\xee" * buf.nbytes, "the memory after refusals")
        env.pm.copy_3d(buf, source, **fits)  # the very last byte fits
        image = Box(**fits).moved(b"\xee" * buf.nbytes, source)
        expect_bytes(env.read(buf), image, "a box that fits to the byte")
        # A box of one slice has no second one: it does not matter where that would begin.
        env.pm.copy_3d(buf, source, **{**fits, "depth": 1, "dst_rows": 1 << 62, "src_rows": 1 << 40})
        expect_bytes(env.read(buf), image, "a box of one slice, again")


@check("COPY-25")
def boxes_within_one_volume(env: Env, resource: Any) -> None:
    pitch, rows, slices = 32, 6, 6
    box, image = Box(8, 2, 3, pitch, pitch, rows, rows), pattern(pitch * rows * slices, 2)
    beside, behind, above = 8, 2 * pitch, 3 * rows * pitch
    with resource.allocate(len(image)) as volume:
        for to in (beside, 16, behind, behind - 8, behind + 8, 4 * pitch - 8, above, above - 8):
            with volume[to:] as further:
                env.write(volume, image)
                env.pm.copy_3d(further, volume, **vars(box))
                wanted = image[:to] + box.moved(image[to:], image)
                expect_bytes(env.read(volume), wanted, f"a volume in which a box was copied {to} bytes on")
                env.write(volume, image)
                env.pm.copy_3d(volume, further, **vars(box))
                expect_bytes(env.read(volume), box.moved(image, image[to:]), f"the same, {to} bytes back")
        with volume[beside:] as further:
            env.write(volume, image)
            env.pm.copy_2d(further, volume, width=8, height=4, dst_pitch=pitch, src_pitch=pitch)
            wanted = image[:beside] + Box(8, 4, 1, pitch, pitch, 4, 4).moved(image[beside:], image)
            expect_bytes(env.read(volume), wanted, "rows copied beside themselves")


@check("COPY-25")
def boxes_that_share_a_byte(env: Env, resource: Any) -> None:
    pitch, rows, slices = 32, 6, 6
    box, image = Box(8, 2, 3, pitch, pitch, rows, rows), pattern(pitch * rows * slices, 2)
    one, layer = pitch, rows * pitch
    with resource.allocate(len(image)) as volume:
        env.write(volume, image)
        near_layers = (layer, layer + 7, layer - 7, layer - one - 7, 2 * layer - 7, 2 * layer + one + 7)
        for to in (0, 1, 7, one, one + 7, one - 7, *near_layers):
            with volume[to:] as further:
                for dst, src in ((further, volume), (volume, further)):
                    with refused(ValueError, saying="overlap"):
                        env.pm.copy_3d(dst, src, **vars(box))
        with volume[8:] as further:
            with refused(ValueError, saying="overlap"):
                env.pm.copy_2d(further, volume, width=9, height=4, dst_pitch=pitch, src_pitch=pitch)
            for other in (Box(8, 2, 3, pitch, 2 * pitch, rows, rows // 2), Box(8, 2, 3, pitch, pitch, rows, rows - 1)):
                with refused(ValueError, saying="overlap"):
                    env.pm.copy_3d(further, volume, **vars(other))
        expect_bytes(env.read(volume), image, "the volume after refusals")


@check("COPY-26")
def boxes_on_a_stream(env: Env, resource: Any) -> None:
    stream, box = env.stream(), Box(48, 4, 5, 64, 48, 8, 6)
    with other_end(env, resource, NBYTES) as other, env.allocate(resource, NBYTES, stream) as buf:
        buf.fill(0xEE, stream=stream)
        env.write(other, SOURCE)
        stream.synchronize()
        with env.latch(stream) as held:
            first = env.pm.copy_3d(buf, other, **vars(box), stream=stream)
            second = other.fill(0x11, stream=stream)
            third = env.pm.copy_3d(other, buf, **vars(box.back()), stream=stream)
            expect(not any(done.query() for done in (first, second, third)), "work ran before the latch was released")
            held.release()
            third.synchronize()
        image = box.moved(PADDING, SOURCE)
        expect_bytes(env.read(buf), image, "the target of a box that was queued")
        expect_bytes(
            env.read(other), box.back().moved(b"\x11" * NBYTES, image), "its source, after a fill and a box back"
        )


@check("COPY-26")
def boxes_keep_their_ends(env: Env, resource: Any) -> None:
    stream, box = env.stream(), Box(48, 4, 5, 64, 48, 8, 6)
    with other_end(env, resource, NBYTES) as target:
        target.fill(0xEE)
        source = env.allocate(resource, NBYTES, stream)
        env.write(source, SOURCE)
        with env.latch(stream) as held:
            env.pm.copy_3d(target, source, **vars(box), stream=stream)
            del source
            gc.collect()
            if not resource.is_stream_ordered:
                expect_equal(resource.live_buffers, 1, "live buffers: the source of a pending copy")
            held.release()
            stream.synchronize()
        expect_bytes(env.read(target), box.moved(PADDING, SOURCE), "the target of a box whose source was dropped")
