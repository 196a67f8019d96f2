"""Libraries that work on GPUs alone refuse resources of the host backend, whether or not they are installed."""

from __future__ import annotations

import pytest
from helpers.process import python_output


@pytest.mark.parametrize(("module", "function"), [("numba", "use"), ("warp", "use"), ("nvmath", "allocator")])
def test_the_host_backend_is_refused(module: str, function: str) -> None:
    assert "works here on portamem.cuda" in python_output(
        f"""
        import portamem.host as pm
        from portamem.plugins import {module}
        try:
            {module}.{function}(pm.PoolMemoryResource())
        except ValueError as refused:
            print(refused)
        """
    )
