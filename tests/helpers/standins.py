"""The stand-ins that ci/standins.sh builds: one for each generation of HIP, and processes over one of them."""

from __future__ import annotations

import json
import os
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from helpers.process import run_python

RAW = """
    import ctypes, json, os, sys, time
    from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

    hip = ctypes.CDLL(os.environ["STANDIN_LIBRARY"])
    MAJOR = int(os.environ["STANDIN_LIBRARY"].rpartition(".")[2])
    MIB = 1 << 20
    TO_DEVICE, TO_HOST = 1, 2

    def expect(name, *args):
        error = getattr(hip, name)(*args)
        assert error == 0, (name, error)

    def given(name, *args):
        # What a call puts into its first argument.
        pointer = c_void_p()
        expect(name, byref(pointer), *args)
        return pointer

    def malloc(size):
        return given("hipMalloc", c_size_t(size))

    def pinned(size, flags=0):
        return given("hipHostMalloc", c_size_t(size), c_uint(flags))

    def stream():
        return given("hipStreamCreateWithFlags", c_uint(1))

    def pool(device=0):
        return given("hipDeviceGetDefaultMemPool", device)

    def byte_at(pointer, offset=0):
        seen = ctypes.c_ubyte()
        expect("hipMemcpy", byref(seen), c_void_p(pointer.value + offset), c_size_t(1), TO_HOST)
        return seen.value

    def attributes(pointer):
        # type, device, device pointer, host pointer, isManaged, flags
        class Attributes(ctypes.Structure):
            _fields_ = [("type", c_int), ("device", c_int), ("on_device", c_void_p), ("on_host", c_void_p),
                        ("is_managed", c_int), ("flags", c_uint)]
        found = Attributes()
        return hip.hipPointerGetAttributes(byref(found), pointer), found

    def free_memory():
        free, total = c_size_t(), c_size_t()
        expect("hipMemGetInfo", byref(free), byref(total))
        return free.value

    def pool_attribute(pool, number):
        value = c_uint64()
        expect("hipMemPoolGetAttribute", pool, number, byref(value))
        return value.value

    def say(answer):
        print(json.dumps(answer))
"""
"""Begins Python source that calls HIP itself, through ctypes. ``say`` prints the answer."""


@dataclass(frozen=True)
class StandIn:
    abi: str
    """As ci/standins.sh calls it: "5.2"."""
    folder: Path

    @property
    def major(self) -> int:
        return int(self.abi.partition(".")[0])

    @property
    def library(self) -> Path:
        return self.folder / "lib" / f"libamdhip64.so.{self.major}"

    @property
    def module(self) -> Path:
        return next((self.folder / "site-packages/portamem").glob("_hip.*so"))

    def environment(self, **env: str | None) -> dict[str, str | None]:
        """The variables of a process over it, none of the tests' own among them."""
        mine = [name for name in os.environ if name.startswith(("STANDIN_", "PORTAMEM_"))]
        variables: dict[str, str | None] = dict.fromkeys(mine)
        variables["PYTHONPATH"] = str(self.folder / "site-packages")
        variables["LD_LIBRARY_PATH"] = str(self.library.parent)
        variables["STANDIN_LIBRARY"] = str(self.library)
        return {**variables, **env}

    def ask(self, code: str, *args: str, **env: str | None) -> Any:
        """Runs Python source, which may use portamem, and reads the JSON that it prints."""
        done = run_python(code, *args, **self.environment(**env))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def call(self, code: str, *args: str, **env: str | None) -> Any:
        """Runs Python source that calls HIP itself, and returns what it says; see RAW."""
        return self.ask(textwrap.dedent(RAW) + textwrap.dedent(code), *args, **env)

    @cache  # noqa: B019 - there are three of them
    def quirks(self) -> dict[str, dict[str, Any]]:
        """The table of its quirks, by name."""
        table = self.call("""
            hip.portamem_standin.restype = ctypes.c_char_p
            print(hip.portamem_standin().decode())
        """)
        assert table["simulated"] is True
        return {quirk["name"]: quirk for quirk in table["quirks"]}


ABIS = ("5.2", "6.1", "7.1")


def root() -> Path:
    """The folder where ci/standins.sh has put them."""
    folder = os.environ.get("PORTAMEM_STANDINS")
    if not folder:
        pytest.fail("PORTAMEM_STANDINS is not set: ci/standins.sh test runs these tests")
    return Path(folder)


@cache
def standin(abi: str) -> StandIn:
    made = StandIn(abi, root() / abi)
    assert made.library.exists(), f"{made.library} is missing: ci/standins.sh {abi}"
    return made
