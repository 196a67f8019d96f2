"""Reads the recipes of ci/packaging, and finds where they differ from pyproject.toml, CMake and the command line."""

from __future__ import annotations

import importlib
import itertools
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spack_recipe import Recipe

Files = Mapping[str, str]

SPACK = "ci/packaging/spack/spack_repo/portamem/packages/portamem/package.py"
CONDA = "ci/packaging/conda/recipe.yaml"
VARIANTS = "ci/packaging/conda/variants.yaml"
CONTAINER = "ci/packaging/Containerfile"
PROJECT = "pyproject.toml"
CMAKE = "CMakeLists.txt"
CUDART = "csrc/cmake/FindCudart.cmake"
HIP = "csrc/cmake/FindHipRuntime.cmake"
SELECT = "csrc/cmake/PortamemSelect.cmake"
VERSION = "csrc/include/portamem/version.h"
READ = (SPACK, CONDA, VARIANTS, CONTAINER, PROJECT, CMAKE, CUDART, HIP, SELECT, VERSION)


def read(root: Path) -> dict[str, str]:
    return {path: (root / path).read_text(encoding="utf-8") for path in READ}


def project(files: Files) -> dict[str, Any]:
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    parsed: dict[str, Any] = tomllib.loads(files[PROJECT])
    return parsed


def groups(pattern: str, text: str) -> tuple[str, ...]:
    """The groups of a pattern that has to be in the text."""
    found = re.search(pattern, text)
    assert found is not None, f"{pattern} is not there: the project says it otherwise now"
    return found.groups()


def minimums(requirements: list[str]) -> dict[str, str]:
    """The lowest version of each requirement."""
    found = {}
    for requirement in requirements:
        name, version = groups(r"^([\w-]+)>=([\d.]+)$", requirement)
        found[name] = version
    return found


def wanted(files: Files) -> dict[str, str]:
    """The packages that a build of the Python package needs, each with its lowest version."""
    said = project(files)
    least = minimums([*said["build-system"]["requires"], *said["project"]["dependencies"]])
    least["python"] = said["project"]["requires-python"].removeprefix(">=")
    (least["cmake"],) = groups(r"cmake_minimum_required\(VERSION ([\d.]+?)\.\.\.", files[CMAKE])
    return least


def known_options(files: Files) -> set[str]:
    """The variables that portamem's CMake reads: what it declares, and where its finders look."""
    declared = set(re.findall(r"^(?:option|set)\((PORTAMEM_\w+)", files[CMAKE], re.MULTILINE))
    return declared | set(re.findall(r"\b(PORTAMEM_HIP_\w+|CUDAToolkit_ROOT)\b", files[CUDART] + files[HIP]))


def faults_of_spack(files: Files) -> list[str]:
    recipe = Recipe(files[SPACK], SPACK)
    faults = []
    said = {}
    for spec, condition in recipe.depends:
        name, _, version = spec.partition("@")
        said[name.removeprefix("py-")] = version.removesuffix(":")
        if name.startswith("py") and condition != "+python":
            faults.append(f"{name} is wanted without +python")
    least = wanted(files)
    (least["cuda"],) = groups(r"_cudart_VERSION VERSION_LESS (\d+)", files[CUDART])
    faults += [
        f"{name}: {said.get(name)}, wanted {version}" for name, version in least.items() if said.get(name) != version
    ]
    faults += [f"{name} is no requirement" for name in said if name not in {*least, "cxx", "hip"}]
    known = known_options(files)
    switches = ("cuda", "rocm", "shared")
    for on in itertools.product((False, True), repeat=len(switches)):
        chosen = frozenset(name for name, is_on in zip(switches, on, strict=True) if is_on)
        backends = ["host", *(["cuda"] if "cuda" in chosen else []), *(["hip"] if "rocm" in chosen else [])]
        for builder in ("CMakeBuilder", "PythonPipBuilder"):
            options = recipe.options(builder, chosen)
            faults += [f"{name} is no option" for name in options if name not in known]
            if options.get("PORTAMEM_BACKENDS") != ";".join(backends):
                faults.append(f"{builder} with {sorted(chosen)} builds {options.get('PORTAMEM_BACKENDS')}")
            if ("CUDAToolkit_ROOT" in options) != ("cuda" in chosen):
                faults.append(f"{builder} with {sorted(chosen)} has {sorted(options)}")
            library = "shared" if "shared" in chosen else "static"
            if builder == "CMakeBuilder" and options.get("PORTAMEM_LIBRARY") != library:
                faults.append(f"with {sorted(chosen)} the library is {options.get('PORTAMEM_LIBRARY')}")
    if recipe.class_.git != "/checkout":
        faults.append(f"the checkout is looked for in {recipe.class_.git}")
    if recipe.variants != {"cuda", "rocm", "python", "shared"}:
        faults.append(f"variants {sorted(recipe.variants)}")
    return faults


def items(text: str, key: str) -> list[str]:
    """The items of a list in plain YAML, wherever in it the key is, without those of lists further in."""
    found = re.search(rf"^( *){key}:\n((?:\1  .*\n)+)", text, re.MULTILINE)
    if found is None:
        return []
    inside = "  " + found[1]
    return re.findall(rf"^{inside}- ([^#\n]+?) *(?:#.*)?$", found[2], re.MULTILINE)


def faults_of_conda(files: Files) -> list[str]:
    text = files[CONDA]
    faults = []
    least = wanted(files)
    run_time = minimums(project(files)["project"]["dependencies"])
    places = {
        "build": {"cmake": least["cmake"]},
        "host": {name: least[name] for name in least if name not in {*run_time, "cmake", "python"}},
        "run": run_time,
    }
    requirements = text[text.index("\nrequirements:") :]
    for place, needed in places.items():
        said = [item.partition(" >=")[::2] for item in items(requirements, place) if " >=" in item]
        if dict(said) != needed:
            faults.append(f"{place}: {dict(said)}, wanted {needed}")
    numbers = re.findall(r"#define PORTAMEM_VERSION_\w+ (\d+)", files[VERSION])
    if f'\n  version: "{".".join(numbers)}"' not in text:
        faults.append(f"the version is not {numbers}")
    pythons = re.findall(r"Python :: (3\.\d+)\"", files[PROJECT])
    if items(files[VARIANTS], "python") != [f"{python}.*" for python in pythons]:
        faults.append(f"the Pythons are not {pythons}")
    if '"host;cuda" if flavor == "cuda" else "host"' not in text or "PORTAMEM_BACKENDS: ${{ backends }}" not in text:
        faults.append("the flavors are not what is built")
    known = known_options(files)
    faults += [f"{name} is no option" for name in re.findall(r"cmake\.define\.(\w+)", text) if name not in known]
    return faults


def faults_of_container(files: Files, root: Path) -> list[str]:
    text = files[CONTAINER]
    faults = []
    copied = [name for line in re.findall(r"^COPY ([^-\n].*)$", text, re.MULTILINE) for name in line.split()[:-1]]
    faults += [f"{name} is not in the checkout" for name in copied if not (root / name).exists()]
    said = project(files)["project"]
    needed = {
        PROJECT,
        CMAKE,
        said["readme"],
        *said["license-files"],
        "csrc",
        *project(files)["tool"]["scikit-build"]["wheel"]["packages"],
    }
    faults += [f"{name} is not copied" for name in sorted(needed - set(copied))]
    read = set(re.findall(r"^(PORTAMEM_\w+) = \{ env", files[PROJECT], re.MULTILINE))
    given = set(re.findall(r"\b(PORTAMEM_\w+)=", text))
    faults += [f"{name} is no variable of a build" for name in sorted(given - read)]
    if not {"PORTAMEM_BACKENDS", "PORTAMEM_CUDA_WHEELS"} <= given:
        faults.append(f"the build is told {sorted(given)}")
    majors = set(re.findall(r'PORTAMEM_CUDA_WHEELS = "\^(\d+)\$"', files[PROJECT]))
    comment = re.search(r"^# (\d+) or (\d+) builds the CUDA backend", text, re.MULTILINE)
    if comment is None or set(comment.groups()) != majors:
        faults.append(f"CUDA of wheels is {sorted(majors)}")
    return faults


def commands(files: Files) -> set[tuple[str, ...]]:
    """Calls of the command portamem that recipes make, each split into words."""
    text = "\n".join(
        line for path in (CONDA, CONTAINER) for line in files[path].splitlines() if line.lstrip()[:1] != "#"
    )
    return {tuple(call.split()) for call in re.findall(r"\bportamem ((?:info|demo|--)[^&)\n\"]*)", text)}


def faults_of_extras(files: Files) -> list[str]:
    """CUDA's extras hold packages of the CUDA that they name, and ``cuda`` is the newest."""
    extras = project(files)["project"]["optional-dependencies"]
    numbered = {name: int(name[4:]) for name in extras if re.fullmatch(r"cuda\d+", name)}
    majors = {int(major) for major in re.findall(r'PORTAMEM_CUDA_WHEELS = "\^(\d+)\$"', files[PROJECT])}
    faults = []
    if set(numbered.values()) != majors:
        faults.append(f"wheels build CUDA {sorted(majors)}, extras are {sorted(numbered)}")
    if extras["cuda"] != extras[max(numbered, key=numbered.__getitem__)]:
        faults.append("cuda is not the newest")
    for name, major in numbered.items():
        for requirement in extras[name]:
            package, limits = groups(r"^([\w-]+)(.*)", requirement)
            if package == "cuda-core":  # one release of it serves every CUDA
                continue
            if f"=={major}.*" not in limits.split(","):
                faults.append(f"{name} takes {requirement}")
            suffix = re.search(r"-cu(\d+)$", package)
            if (suffix is None) != (major >= 13) and package.startswith("nvidia-"):
                faults.append(f"{name} takes {package}")
    return faults
