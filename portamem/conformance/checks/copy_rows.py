# SPDX-License-Identifier: MIT
"""Shows the clauses of copies and fills of rows."""

from __future__ import annotations

from typing import Any

from portamem.conformance.kit.check import check
from portamem.conformance.kit.env import Env
from portamem.conformance.kit.expect import expect, expect_bytes, expect_equal, refused
from portamem.conformance.kit.memory import pattern

WIDTH, HEIGHT = 100, 17
ROWS = pattern(WIDTH * HEIGHT)


def _rows(image: bytes, pitch: int, width: int = WIDTH, height: int = HEIGHT) -> bytes:
    """The rows of an image without its padding."""
    return b"".join(image[row * pitch : row * pitch + width] for row in range(height))


@check("COPY-14")
def rows_there_and_back(env: Env, resource: Any) -> None:
    stream, plain = env.stream(), env.resource("device")
    with env.allocate(resource, WIDTH * HEIGHT) as flat, plain.allocate_pitched(WIDTH, HEIGHT) as pitched:
        for on in (None, stream):
            env.write(flat, ROWS)
            pitched.fill(0)
            done = env.pm.copy_2d(pitched, flat, stream=on)
            expect(on is not None or done is None, "a blocking copy answers an event")
            stream.synchronize()
            expect_bytes(_rows(env.read(pitched), pitched.pitch), ROWS, "rows of pitched memory")
            flat.fill(0)
            done = env.pm.copy_2d(flat, pitched, stream=on)
            if on is not None:
                expect(isinstance(done, env.pm.Event), "a copy on a stream answers no event")
                done.synchronize()
            expect_bytes(env.read(flat), ROWS, "rows that came back")


@check("COPY-14")
def rows_of_any_pitch(env: Env, resource: Any) -> None:
    stream = env.stream()
    with env.allocate(resource, 4096) as buf, env.resource("device").allocate(4096) as other:
        for width, height, dst_pitch, src_pitch in (
            (1, 64, 3, 64),
            (16, 8, 16, 40),
            (33, 7, 64, 33),
            (4096, 1, 4096, 4096),
        ):
            for on in (None, stream):
                env.write(other, pattern(4096))
                env.write(buf, b"\xee" * 4096)
                env.pm.copy_2d(
                    buf, other, width=width, height=height, dst_pitch=dst_pitch, src_pitch=src_pitch, stream=on
                )
                stream.synchronize()
                wanted = bytearray(b"\xee" * 4096)
                for row in range(height):
                    wanted[row * dst_pitch : row * dst_pitch + width] = pattern(4096)[row * src_pitch :][:width]
                expect_bytes(
                    env.read(buf), bytes(wanted), f"{height} rows of {width}, {src_pitch} to {dst_pitch} apart"
                )
        env.write(other, pattern(4096))
        out = bytearray(5 * 32)
        with other[8:] as part:
            env.pm.copy_2d(out, part, width=32, height=5, src_pitch=100)
        expect_bytes(bytes(out), _rows(pattern(4096)[8:], 100, 32, 5), "a box out of a bigger one, to Python")
        env.pm.copy_2d(other, bytes(out), width="32 B", height=5, dst_pitch=64)
        expect_bytes(_rows(env.read(other), 64, 32, 5), bytes(out), "rows from Python")


@check("COPY-14")
def rows_between_pitched_buffers(env: Env, resource: Any) -> None:
    plain = env.resource("device")
    with (
        plain.allocate_pitched(WIDTH, HEIGHT) as first,
        plain.allocate_pitched(2 * WIDTH + 500, HEIGHT) as second,
        env.allocate(resource, WIDTH * HEIGHT) as out,
    ):
        env.pm.copy_2d(first, ROWS)
        env.pm.copy_2d(second, first, width=WIDTH)
        env.pm.copy_2d(out, second, width=WIDTH)
        expect_bytes(env.read(out), ROWS, "rows that went through two pitches")
        env.pm.copy_2d(first, second, height=2)
        expect_bytes(_rows(env.read(first), first.pitch), ROWS, "rows copied back")


@check("COPY-15")
def padding_is_left_alone(env: Env, resource: Any) -> None:
    stream = env.stream()
    with resource.allocate_pitched(WIDTH, HEIGHT) as buf:
        for on in (None, stream):
            buf.fill(0xEE)
            env.pm.copy_2d(buf, ROWS, stream=on)
            stream.synchronize()
            image = env.read(buf)
            expect_bytes(_rows(image, buf.pitch), ROWS, "rows")
            buf_2d = _padding(image, buf.pitch)
            expect_bytes(buf_2d, b"\xee" * len(buf_2d), "the padding after copy_2d")
            env.pm.fill_2d(buf, 7, stream=on)
            stream.synchronize()
            image = env.read(buf)
            expect_bytes(_rows(image, buf.pitch), b"\x07" * (WIDTH * HEIGHT), "rows")
            buf_2d = _padding(image, buf.pitch)
            expect_bytes(buf_2d, b"\xee" * len(buf_2d), "the padding after fill_2d")
        env.pm.copy_2d(buf, ROWS, height=HEIGHT - 1)
        image = env.read(buf)
        expect_bytes(image[(HEIGHT - 1) * buf.pitch :][:WIDTH], b"\x07" * WIDTH, "the row after those that were copied")


def _padding(image: bytes, pitch: int) -> bytes:
    return b"".join(image[row * pitch + WIDTH : (row + 1) * pitch] for row in range(HEIGHT))


@check("COPY-16")
def rows_that_do_not_fit(env: Env, resource: Any) -> None:
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"width": 101, "height": 1, "src_pitch": 100}, "pitch"),
        ({"width": 100, "height": 18, "src_pitch": 100}, "do not fit"),
        ({"width": 100, "height": 17, "src_pitch": 101}, "do not fit"),
        ({"width": 100, "height": 17, "src_pitch": 50}, "pitch"),
        ({"width": -1, "height": 17}, "negative"),
        ({"width": 100, "height": -1}, "negative"),
        ({"width": 100, "height": 17, "dst_pitch": 50}, "pitch"),
        ({"width": 1 << 40, "height": 1 << 40, "src_pitch": 1 << 40, "dst_pitch": 1 << 40}, "do not fit"),
        ({"width": 1, "height": 17, "dst_pitch": 1 << 62}, "do not fit"),
    )
    with resource.allocate_pitched(WIDTH, HEIGHT) as buf:
        buf.fill(0xEE)
        for arguments, message in wrong:
            with refused(ValueError, saying=message):
                env.pm.copy_2d(buf, ROWS, **arguments)
        with refused(ValueError, saying="do not fit"):
            env.pm.copy_2d(buf, ROWS[:-1])
        with refused(ValueError, saying="overlap"):
            env.pm.copy_2d(buf, buf)
        with buf[: buf.pitch] as first, buf[buf.pitch - 1 :] as second, refused(ValueError, saying="overlap"):
            env.pm.copy_2d(first, second, width=buf.pitch, height=1)
        with refused(TypeError):
            env.pm.copy_2d(buf, ROWS, height=1.5)
        expect_bytes(env.read(buf), b"\xee" * buf.nbytes, "the memory after refusals")
        env.pm.copy_2d(buf, ROWS)  # the very last byte fits
        expect_bytes(_rows(env.read(buf), buf.pitch), ROWS, "rows that fit to the byte")
    with resource.allocate(WIDTH) as flat:
        for given in ({}, {"width": WIDTH}, {"height": 1}):
            with refused(TypeError, saying="copy_2d needs"):
                env.pm.copy_2d(flat, bytes(WIDTH), **given)
        expect_equal(flat.exports, 0, "exports after refusals")


def _bytes_of(start: int, pitch: int, width: int, height: int) -> set[int]:
    return {start + row * pitch + column for row in range(height) for column in range(width)}


@check("COPY-16")
def rows_within_one_buffer(env: Env, resource: Any) -> None:
    """Ends of one pitch may lie between each other's rows, if they share no byte. Ends of different pitches have
    to lie one behind the other: refused is what interleaves, whether a byte is shared or not."""
    width, height, size = 6, 3, 96
    with resource.allocate(size) as buf:
        for src_pitch in (6, 8, 20):
            for dst_pitch in (6, 8, 20):
                for to in range(0, size - (height - 1) * dst_pitch - width, 5):
                    source, target = (_bytes_of(*end, width, height) for end in ((20, src_pitch), (to, dst_pitch)))
                    apart = max(source) < min(target) or max(target) < min(source)
                    ends = {"width": width, "height": height, "src_pitch": src_pitch, "dst_pitch": dst_pitch}
                    before = pattern(size)
                    env.write(buf, before)
                    with buf[to:] as dst, buf[20:] as src:
                        if apart or (src_pitch == dst_pitch and not source & target):
                            env.pm.copy_2d(dst, src, **ends)
                            moved = bytearray(before)
                            for new, old in zip(sorted(target), sorted(source), strict=True):
                                moved[new] = before[old]
                            before = bytes(moved)
                        else:
                            with refused(ValueError, saying="overlap"):
                                env.pm.copy_2d(dst, src, **ends)
                    expect_bytes(env.read(buf), before, f"the buffer after rows from 20 to {to}, {ends}")


@check("COPY-17")
def rows_are_filled(env: Env, resource: Any) -> None:
    stream = env.stream()
    for width, height in ((1, 1), (40, 3), (513, 9)):
        with resource.allocate_pitched(width, height) as buf:
            for value in (0, 1, 255):
                for on in (None, stream):
                    buf.fill(0x5A)
                    done = env.pm.fill_2d(buf, value, stream=on)
                    if on is not None:
                        done.synchronize()
                    rows = _rows(env.read(buf), buf.pitch, width, height)
                    expect_bytes(
                        rows, bytes([value]) * (width * height), f"{height} rows of {width} filled with {value}"
                    )
            for wrong in (-1, 256):
                with refused(ValueError, saying="0 to 255"):
                    env.pm.fill_2d(buf, wrong)
    with resource.allocate(64) as flat:
        flat.fill(3)
        with refused(TypeError):
            env.pm.fill_2d(flat, 0)
        expect_bytes(env.read(flat), b"\x03" * 64, "memory without rows")
