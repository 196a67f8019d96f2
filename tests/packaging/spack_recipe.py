"""Runs a recipe for Spack without Spack: stand-ins of its modules record what the recipe asks for."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Recipe:
    """A Spack recipe, run with stand-ins of Spack's own modules, which record its directives."""

    def __init__(self, text: str, path: str) -> None:
        self.depends: list[tuple[str, str]] = []
        self.variants: set[str] = set()
        self.context = ""
        self.class_, self.builders = self._run(text, path)

    @contextmanager
    def _when(self, condition: str) -> Iterator[None]:
        self.context = condition
        yield
        self.context = ""

    def _depends_on(self, spec: str, when: str = "", type: object = None) -> None:
        self.depends.append((spec, when or self.context))

    def _variant(self, name: str, default: bool, description: str, when: str = "") -> None:
        self.variants.add(name)

    def _run(self, text: str, path: str) -> tuple[Any, dict[str, Any]]:
        def nothing(*args: object, **kwargs: object) -> None:
            """Stands for a directive that the tests do not look at."""

        names = ("build_system", "conditional", "conflicts", "license", "version", "join_path")
        package = types.ModuleType("spack.package")
        package.__dict__.update(dict.fromkeys(names, nothing))
        package.__dict__.update(depends_on=self._depends_on, variant=self._variant, when=self._when)
        systems = types.ModuleType("spack_repo.builtin.build_systems")
        builder = type("Builder", (), {"define": staticmethod(lambda name, value: f"-D{name}={value}")})
        for name, classes in (
            ("cmake", {"CMakePackage": type("CMakePackage", (), {}), "CMakeBuilder": builder}),
            ("python", {"PythonPackage": type("PythonPackage", (), {}), "PythonPipBuilder": builder}),
        ):
            setattr(systems, name, types.SimpleNamespace(**classes))
        stands = {
            "spack": types.ModuleType("spack"),
            "spack.package": package,
            "spack_repo": types.ModuleType("spack_repo"),
            "spack_repo.builtin": types.ModuleType("spack_repo.builtin"),
            "spack_repo.builtin.build_systems": systems,
        }
        before = {name: sys.modules.get(name) for name in stands}
        sys.modules.update(stands)
        try:
            names_of: dict[str, Any] = {"__file__": f"/checkout/{path}"}
            exec(compile(text, path, "exec"), names_of)
        finally:
            for name, module in before.items():
                sys.modules.pop(name)
                if module is not None:
                    sys.modules[name] = module
        return names_of["Portamem"], names_of

    def options(self, builder: str, chosen: frozenset[str]) -> dict[str, str]:
        """The arguments that a builder gives to CMake where these variants are on."""
        places = {name: types.SimpleNamespace(prefix=_Prefix(f"/{name}")) for name in ("cuda", "hip")}
        spec = _Spec(places, chosen)
        package = self.class_()
        package.spec = spec
        made = self.builders[builder]()
        made.spec, made.pkg = spec, package
        if builder == "CMakeBuilder":
            return dict(option.removeprefix("-D").split("=", 1) for option in made.cmake_args())
        settings = made.config_settings(spec, None)
        return {name.removeprefix("cmake.define."): str(value) for name, value in settings.items()}


class _Prefix(str):
    @property
    def include(self) -> str:
        return f"{self}/include"


class _Spec:
    def __init__(self, places: dict[str, Any], chosen: frozenset[str]) -> None:
        self._places, self._chosen = places, chosen

    def __getitem__(self, name: str) -> Any:
        return self._places[name]

    def satisfies(self, condition: str) -> bool:
        return condition.removeprefix("+") in self._chosen
