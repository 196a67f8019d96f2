# SPDX-License-Identifier: MIT
"""The header sets, and where each of them comes from. Versions are pinned: the page that is written names them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

INCLUDE = Path(__file__).parents[2] / "csrc/include"


@dataclass(frozen=True)
class Source:
    """Headers out of wheels: those below `inside` of each wheel are unpacked side by side into one folder."""

    folder: str
    requirements: tuple[str, ...]
    inside: tuple[str, ...]
    #: Wheels that exist for some versions of Python only, and of which nothing but headers is taken.
    any_python: bool = False

    def place(self, root: Path) -> Path:
        return root / self.folder


def cuda12(version: str, runtime: str, nvcc: str, *others: str) -> Source:
    """CUDA 12: the runtime's headers include crt/, which the compiler's wheel holds."""
    return Source(
        f"cuda{version}",
        (f"nvidia-cuda-runtime-cu12=={runtime}", f"nvidia-cuda-nvcc-cu12=={nvcc}", *others),
        tuple(f"nvidia/{part}/include" for part in ("cuda_runtime", "cuda_nvcc", "cuda_cccl", "cuda_profiler_api")),
    )


def cuda13(version: str, runtime: str, crt: str, *others: str) -> Source:
    return Source(
        f"cuda{version}",
        (f"nvidia-cuda-runtime=={runtime}", f"nvidia-cuda-crt=={crt}", *others),
        ("nvidia/cu13/include",),
    )


def triton(version: str, wheel: str) -> Source:
    """HIP's headers, as Triton packs them: the only package that holds those of HIP 6 and 7."""
    return Source(f"hip{version}", (f"triton=={wheel}",), ("triton/backends/amd/include",), any_python=True)


CUDA_12_0 = cuda12("12.0", "12.0.146", "12.0.140")
# HIP's headers for the NVIDIA platform include headers of two more wheels.
CUDA_12_9 = cuda12(
    *("12.9", "12.9.79", "12.9.86"), "nvidia-cuda-cccl-cu12==12.9.27", "nvidia-cuda-profiler-api-cu12==12.9.79"
)
CUDA_13_0 = cuda13("13.0", "13.0.96", "13.0.88", "nvidia-cuda-cccl==13.0.85", "nvidia-cuda-profiler-api==13.0.85")
CUDA_13_5 = cuda13("13.5", "13.5.37", "13.5.37")
HIP_6_1 = triton("6.1", "3.0.0")
HIP_7_1 = triton("7.1", "3.9.0")


@dataclass(frozen=True)
class HeaderSet:
    name: str  #: as the page calls it
    backend: str
    defines: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    #: Other places that headers come from, for the page.
    packages: tuple[str, ...] = ()
    #: The macros that hold the version, and what they have to be: a set that is another version claims nothing.
    version: tuple[tuple[str, str], ...] = ()
    #: A header that its first source has to hold.
    needs: str = ""

    @property
    def slug(self) -> str:
        return self.name.lower().replace(" ", "-").replace(",", "")

    def flags(self, root: Path) -> list[str]:
        """Flags that every compiler gets, and the reader too."""
        places = [str(source.place(root)) for source in self.sources]
        return [
            "-std=c++17",
            f"-I{INCLUDE}",
            f"-DPORTAMEM_{self.backend.upper()}=1",
            *(f"-D{define}" for define in self.defines),
            *(flag for place in places for flag in ("-isystem", place)),
        ]


def _hip(major: int, minor: int) -> tuple[tuple[str, str], ...]:
    return (("HIP_VERSION_MAJOR", str(major)), ("HIP_VERSION_MINOR", str(minor)))


AMD, NVIDIA = ("__HIP_PLATFORM_AMD__=1",), ("__HIP_PLATFORM_NVIDIA__=1",)
DEBIAN = ("Debian libamdhip64-dev",)

SETS = (
    HeaderSet("host", "host", packages=("portamem",)),
    HeaderSet("CUDA 12.0", "cuda", sources=(CUDA_12_0,), version=(("CUDART_VERSION", "12000"),)),
    HeaderSet("CUDA 12.9", "cuda", sources=(CUDA_12_9,), version=(("CUDART_VERSION", "12090"),)),
    HeaderSet("CUDA 13.0", "cuda", sources=(CUDA_13_0,), version=(("CUDART_VERSION", "13000"),)),
    HeaderSet("CUDA 13.5", "cuda", sources=(CUDA_13_5,), version=(("CUDART_VERSION", "13050"),)),
    HeaderSet("HIP 5.2 AMD", "hip", AMD, packages=DEBIAN, version=_hip(5, 2)),
    HeaderSet("HIP 6.1 AMD", "hip", AMD, (HIP_6_1,), version=_hip(6, 1)),
    HeaderSet("HIP 7.1 AMD", "hip", AMD, (HIP_7_1,), version=_hip(7, 1)),
    HeaderSet(
        *("HIP 5.2 NVIDIA", "hip", NVIDIA, (CUDA_12_9,), DEBIAN),
        version=(*_hip(5, 2), ("CUDART_VERSION", "12090")),
    ),
)


#: Header sets that do not compile, as the page says.
_NVIDIA_DETAIL = "hip/nvidia_detail/nvidia_hip_runtime_api.h"
IMPOSSIBLE = (
    HeaderSet("HIP 6.1 NVIDIA", "hip", NVIDIA, (HIP_6_1, CUDA_12_9), needs=_NVIDIA_DETAIL),
    HeaderSet("HIP 7.1 NVIDIA", "hip", NVIDIA, (HIP_7_1, CUDA_12_9), needs=_NVIDIA_DETAIL),
    HeaderSet("HIP 5.2 NVIDIA over CUDA 13.0", "hip", NVIDIA, (CUDA_13_0,), DEBIAN),
)


def fetch(source: Source, root: Path) -> None:
    """Unpacks a source's headers below `root`, once. Nothing is installed."""
    place = source.place(root)
    done = place / ".complete"
    if done.exists() and done.read_text(encoding="utf-8").split() == list(source.requirements):
        return
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    if source.any_python:
        platforms = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64")
        command += ["--python-version", "3.11", *(f"--platform={platform}" for platform in platforms)]
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        subprocess.run([*command, "-d", temporary, *source.requirements], check=True)
        for wheel in Path(temporary).glob("*.whl"):
            _unpack(wheel, source.inside, place)
    done.write_text("\n".join(source.requirements), encoding="utf-8")


def _unpack(wheel: Path, inside: tuple[str, ...], place: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            for folder in inside:
                if name.startswith(folder + "/") and not name.endswith("/"):
                    target = place / name.removeprefix(folder + "/")
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(archive.read(name))


def fetch_all(root: Path) -> None:
    for source in dict.fromkeys(source for header_set in SETS for source in header_set.sources):
        fetch(source, root)
