# SPDX-License-Identifier: MIT
"""Files as ends of copies: bytes as they are, and NumPy's format."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

MIB = 1 << 20
SIZES = (0, 1, 1000, 4 * MIB, 4 * MIB + 1, 37 * MIB + 13)


def data_of(nbytes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, nbytes, dtype=np.uint8)


MADE = {
    "device": lambda pm: pm.PoolMemoryResource(pm.DeviceMemoryResource()),
    "pinned": lambda pm: pm.PinnedMemoryResource(),
    "system": lambda pm: pm.SystemMemoryResource(),
}


@pytest.fixture(params=sorted(MADE))
def resource(request: pytest.FixtureRequest, pm: Any) -> Iterator[Any]:
    with MADE[request.param](pm) as made:
        yield made


@pytest.mark.parametrize("nbytes", SIZES)
def test_bytes_go_to_a_file_and_back(pm, resource, tmp_path, nbytes):
    data, path, stream = data_of(nbytes), tmp_path / "bytes", pm.Device().default_stream
    with resource.allocate(nbytes, stream=stream) as buf:
        if nbytes:
            pm.copy(buf, data)
        buf.save(path)
        assert path.read_bytes() == data.tobytes()
        if nbytes:
            buf.fill(0)
        buf.load(path)
        assert buf.exports == 0
        assert buf.view().to_numpy().tobytes() == data.tobytes()


@pytest.mark.parametrize("nbytes", [1000, 9 * MIB + 5])
def test_a_file_object_is_used_from_its_position_on(pm, resource, tmp_path, nbytes):
    data, stream = data_of(nbytes), pm.Stream()
    path = tmp_path / "bytes"
    with resource.allocate(nbytes, stream=stream) as buf:
        pm.copy(buf, data)
        with path.open("wb") as file:
            file.write(b"before")
            buf.save(file, stream=stream)
            file.write(b"behind")
        assert path.read_bytes() == b"before" + data.tobytes() + b"behind"
        for buffering in (-1, 0):
            buf.fill(0)
            with path.open("rb", buffering=buffering) as file:
                assert file.read(6) == b"before"
                buf.load(file, stream=stream)
                assert file.read() == b"behind"
            assert buf.view().to_numpy().tobytes() == data.tobytes()


@pytest.mark.parametrize("nbytes", [1000, 9 * MIB + 5])
def test_files_that_are_no_ordinary_files(pm, resource, tmp_path, nbytes):
    data = data_of(nbytes)
    with resource.allocate(nbytes, stream=pm.Device().default_stream) as buf:
        pm.copy(buf, data)
        memory = io.BytesIO()
        buf.save(memory)
        assert memory.getvalue() == data.tobytes()
        memory.seek(0)
        buf.fill(0)
        buf.load(memory)
        assert buf.view().to_numpy().tobytes() == data.tobytes()
        path = tmp_path / "compressed"
        with gzip.open(path, "wb", compresslevel=0) as file:  # its descriptor has other bytes
            buf.save(file)
        buf.fill(0)
        with gzip.open(path, "rb") as file:
            buf.load(file)
        assert buf.view().to_numpy().tobytes() == data.tobytes()
        read_end, write_end = os.pipe()
        with os.fdopen(read_end, "rb") as source, os.fdopen(write_end, "wb", buffering=0) as target:
            writer = threading.Thread(target=buf.save, args=[target])
            with resource.allocate(nbytes, stream=pm.Device().default_stream) as other:
                writer.start()
                other.load(source)
                writer.join()
                assert other.view().to_numpy().tobytes() == data.tobytes()


def test_work_that_was_queued_comes_first(pm, tmp_path):
    nbytes, stream, path = 9 * MIB, pm.Stream(), tmp_path / "bytes"
    with pm.PoolMemoryResource(pm.DeviceMemoryResource()) as pool, pool.allocate(nbytes, stream=stream) as buf:
        for named in (stream, None):
            opened = threading.Event()
            stream.launch_host_func(lambda opened=opened: opened.wait(20))
            buf.fill(0x5A, stream=stream)
            threading.Timer(0.05, opened.set).start()
            buf.save(path, stream=named)
            assert path.read_bytes() == b"\x5a" * nbytes
            opened = threading.Event()
            stream.launch_host_func(lambda opened=opened: opened.wait(20))
            buf.fill(0, stream=stream)
            threading.Timer(0.05, opened.set).start()
            buf.load(path, stream=named)
            assert buf.view().to_numpy().tobytes() == b"\x5a" * nbytes


def test_what_cannot_be_read_is_refused(pm, resource, tmp_path):
    path, stream = tmp_path / "bytes", pm.Device().default_stream
    path.write_bytes(b"x" * 999)
    with resource.allocate(1000, stream=stream) as buf:
        buf.fill(7)
        with pytest.raises(ValueError, match="999 bytes from its position on, and the memory takes 1000"):
            buf.load(path)
        with path.open("rb") as file:
            file.seek(10)
            with pytest.raises(ValueError, match="989 bytes"):
                buf.load(file)
        assert buf.view().to_numpy().tobytes() == b"\x07" * 1000
        with pytest.raises(EOFError, match="ended after 3 of 1000 bytes"):
            buf.load(io.BytesIO(b"abc"))
        with path.open() as text, pytest.raises(TypeError, match="open as text"):
            buf.load(text)
        with pytest.raises(TypeError, match="neither a path nor a file: it has no method 'read'"):
            buf.load(object())
        with pytest.raises(TypeError, match="neither a path nor a file: it has no method 'write'"):
            buf.save(object())
        with pytest.raises(FileNotFoundError):
            buf.load(tmp_path / "nothing")
        with path.open("rb") as file, pytest.raises(io.UnsupportedOperation):
            buf.save(file)
        assert buf.exports == 0
    for call in (buf.load, buf.save):
        with pytest.raises(ValueError, match="closed"):
            call(path)
    ended = pm.Stream()
    ended.close()
    with resource.allocate(1000, stream=stream) as other:
        for named in ("x", ended):
            with pytest.raises((TypeError, ValueError)):
                other.save(path, stream=named)
            with pytest.raises((TypeError, ValueError)):
                pm.save(path, other, stream=named)
    assert path.read_bytes() == b"x" * 999  # a refusal comes before the file is made anew
    data = np.arange(10, dtype=np.uint8)
    with pm.Buffer.from_handle(data.ctypes.data, 10, owner=data, readonly=True) as fixed:
        with pytest.raises(ValueError, match="read-only"):
            fixed.load(path)
        fixed.save(path)
    assert path.read_bytes() == data.tobytes()


class Fails(io.RawIOBase):
    """A file that fails after some bytes."""

    def __init__(self, left: int) -> None:
        self.left = left

    def readinto(self, target: Any) -> int:
        return self._some(len(target))

    def write(self, data: Any) -> int:
        return self._some(len(data))

    def _some(self, count: int) -> int:
        if self.left == 0:
            raise OSError(28, "No space left on device")
        done = min(count, self.left, 1 * MIB)
        self.left -= done
        return done


def test_a_file_that_fails_halfway_passes_its_error_on(pm, resource):
    with resource.allocate(30 * MIB, stream=pm.Device().default_stream) as buf:
        pm.copy(buf, data_of(30 * MIB))
        for left in (0, 10 * MIB, 29 * MIB):
            for call in (buf.save, buf.load):
                with pytest.raises(OSError, match="No space left"):
                    call(Fails(left))
                assert buf.exports == 0
        buf.fill(3)
        assert buf.view().to_numpy().tobytes() == b"\x03" * (30 * MIB)
    assert resource.live_buffers == 0


def test_a_loop_of_saves_declares_no_stream(pm, tmp_path):
    with (
        pm.PoolMemoryResource(pm.DeviceMemoryResource(), initial_size="40 MiB") as pool,
        pool.allocate(9 * MIB, stream=pm.Stream()) as buf,
    ):
        address = buf.handle
        for _ in range(3):
            buf.save(tmp_path / "bytes")
            buf.load(tmp_path / "bytes")
        buf.reallocate(10 * MIB)
        # Memory that other streams were told of would move; so does memory that a memory checker follows.
        assert pool.is_checked or buf.handle == address


def test_a_writer_that_answers_none_has_written(pm):
    class Target:
        def __init__(self) -> None:
            self.data = b""

        def write(self, data: Any) -> None:
            self.data += bytes(data)

    target = Target()
    with pm.SystemMemoryResource() as resource, resource.allocate(5 * MIB) as buf:
        pm.copy(buf, data_of(5 * MIB))
        buf.save(target)
    assert target.data == data_of(5 * MIB).tobytes()


def test_nothing_stays_out_behind_an_error_that_is_kept(pm, tmp_path):
    path, kept = tmp_path / "array.npy", []
    np.save(path, np.arange(100))
    path.write_bytes(path.read_bytes()[:-1])
    with pm.PoolMemoryResource(pm.DeviceMemoryResource()) as pool:
        buf = pool.allocate(30 * MIB, stream=pm.Device().default_stream)
        for call in (
            lambda: pm.load(path, resource=pool),
            lambda: pm.save(Fails(10 * MIB), buf),
            lambda: buf.load(Fails(10 * MIB)),
        ):
            try:
                call()
            except (ValueError, OSError) as error:
                kept.append(error)
        assert len(kept) == 3
        buf.close()


def test_files_that_the_system_makes_up(pm):
    with open("/proc/version", "rb") as file:
        text = file.read()
    with pm.SystemMemoryResource() as resource, resource.allocate(len(text)) as buf:
        buf.load("/proc/version")
        assert bytes(buf) == text


def test_the_bytes_are_never_whole_in_host_memory(pm, tmp_path):
    if pm.backend == "host":
        pytest.skip("the memory of the CPU runtime's devices is host memory")
    code = f"""
import resource, sys
import portamem.{pm.backend} as pm
path = sys.argv[1]
with pm.DeviceMemoryResource().allocate(1 << 30) as buf:
    buf.fill(5)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    buf.save(path)
    buf.load(path)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(after - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "large")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert int(done.stdout) < 200 * 1024  # KiB


def test_a_save_hears_ctrl_c(pm, tmp_path):
    code = f"""
import os, signal, sys, threading, time
import portamem.{pm.backend} as pm
signal.signal(signal.SIGINT, signal.default_int_handler)
read_end, write_end = os.pipe()
with pm.PoolMemoryResource(pm.DeviceMemoryResource()) as pool, pool.allocate(40 << 20, stream=pm.Stream()) as buf:
    buf.fill(1)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    begin = time.monotonic()
    try:
        buf.save(os.fdopen(write_end, "wb", buffering=0))  # nobody reads
    except KeyboardInterrupt:
        print("heard", time.monotonic() - begin < 5, buf.exports)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.stdout == "heard True 0\n", done.stderr


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float32", "complex128"])
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (5, 6), (2, 3, 4), (1300, 1301)])
def test_npy_files_are_numpys(pm, tmp_path, dtype, shape):
    array = np.frombuffer(data_of(int(np.prod(shape)) * np.dtype(dtype).itemsize).tobytes(), np.uint8)
    array = (array & 1 if dtype == "bool" else array).view(dtype).reshape(shape)
    path = tmp_path / "array.npy"
    pm.save(path, pm.asarray(array))
    found = np.load(path)
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()
    np.save(path, array)
    view = pm.load(path)
    assert (view.dtype, view.shape) == (array.dtype, array.shape)
    assert view.to_numpy().tobytes() == array.tobytes()


def test_npy_in_fortran_order_keeps_its_order(pm, tmp_path):
    array = np.asfortranarray(np.arange(24, dtype="int32").reshape(2, 3, 4))
    path = tmp_path / "array.npy"
    np.save(path, array)
    with pm.SystemMemoryResource() as resource:
        view = pm.load(path, resource=resource)
        assert view.shape == (2, 3, 4)
        assert view.strides == array.strides
        np.testing.assert_array_equal(view.to_numpy(), array)
        pm.save(tmp_path / "again.npy", view)
        assert (tmp_path / "again.npy").read_bytes() == path.read_bytes()
        part = view.buffer.view("int32")
        pm.save(tmp_path / "flat.npy", part)
        np.testing.assert_array_equal(np.load(tmp_path / "flat.npy"), array.ravel(order="F"))
        view.close()
        part.close()


def test_npy_takes_parts_buffers_and_places_in_files(pm, tmp_path):
    view = pm.asarray(np.arange(100, dtype="int16"))
    with (tmp_path / "many").open("w+b") as file:
        pm.save(file, view[10:20])
        pm.save(file, view.buffer)
        file.seek(0)
        np.testing.assert_array_equal(pm.load(file).to_numpy(), np.arange(10, 20))
        np.testing.assert_array_equal(np.load(file).view("int16"), np.arange(100))
    stream = pm.Stream()
    pm.save(tmp_path / "one", view, stream=stream)
    np.testing.assert_array_equal(pm.load(tmp_path / "one", stream=stream).to_numpy(), np.arange(100))
    with pm.PinnedMemoryResource() as pinned:
        loaded = pm.load(tmp_path / "one", resource=pinned)
        assert loaded.is_host_accessible
        loaded.close()


def test_npy_refuses_what_it_cannot_say(pm, tmp_path):
    path = tmp_path / "array.npy"
    matrix = pm.asarray(np.arange(12, dtype="int32").reshape(3, 4))
    with pytest.raises(ValueError, match="not contiguous"):
        pm.save(path, pm.View(matrix.buffer, "int32", (3, 2), strides=(16, 4)))
    with pytest.raises(TypeError, match="asarray"):
        pm.save(path, np.arange(3))
    assert not path.exists()
    path.write_bytes(b"something else, and long enough for that")
    with pytest.raises(ValueError, match=r"no \.npy file .*Buffer\.load"):
        pm.load(path)
    np.save(path, np.array([{}, 1], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="objects"):
        pm.load(path)
    np.save(path, np.arange(5, dtype=">i4"))
    with pytest.raises((TypeError, ValueError)):
        pm.load(path)
    np.save(path, np.arange(5000, dtype="int32"))
    path.write_bytes(path.read_bytes()[:-1])
    before = pm.current_resource().live_buffers
    with pytest.raises(ValueError, match="19999 bytes from its position on, and the memory takes 20000"):
        pm.load(path)
    assert pm.current_resource().live_buffers == before


def test_npy_has_no_name_for_elements_of_ml_dtypes(pm, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    view = pm.asarray(np.arange(5).astype(ml_dtypes.bfloat16))
    with pytest.raises(ValueError, match=r"bfloat16: save their bits, as view\('uint16'\)"):
        pm.save(tmp_path / "array.npy", view)
    pm.save(tmp_path / "array.npy", view.view("uint16"))
    found = pm.load(tmp_path / "array.npy").view("bfloat16")
    np.testing.assert_array_equal(found.to_numpy().astype("int"), np.arange(5))


def test_a_buffer_that_sleeps_leaves_the_file_as_it_is(pm, device, tmp_path):
    if not device.capabilities.virtual_memory:
        with pytest.raises(pm.Error, match="no virtual memory"):
            pm.VirtualMemoryResource(device)
        return
    path = tmp_path / "bytes"
    path.write_bytes(b"the latest checkpoint")
    with pm.VirtualMemoryResource(device) as resource, resource.allocate(4096) as buffer:
        resource.sleep()
        for save in (lambda: buffer.save(path), lambda: pm.save(path, buffer)):
            with pytest.raises(ValueError, match="wake"):
                save()
        resource.wake()
    assert path.read_bytes() == b"the latest checkpoint"
