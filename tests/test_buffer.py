"""Buffers as Python sees them: arguments, and the protocol's method. What they promise is in the contract."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest


def test_calls_with_wrong_arguments_are_refused_as_pythons_own(make_resource: Any) -> None:
    resource = make_resource("device")
    refused = {
        "needs the argument 'nbytes'": lambda: resource.allocate(),
        "takes 1 positional": lambda: resource.allocate(1, None),
        "unexpected keyword argument 'size'": lambda: resource.allocate(size=1),
        "argument twice": lambda: resource.allocate(1, nbytes=1),
    }
    for message, call in refused.items():
        with pytest.raises(TypeError, match=message):
            call()
    with resource.allocate(nbytes=16) as buf:
        with pytest.raises(TypeError, match="takes 0 positional"):
            buf.close(None)
        with pytest.raises(TypeError, match="unexpected keyword argument 'on'"):
            buf.close(on=None)
        keywords = {"".join(("str", "eam")): None}  # spelt out at run time: another object than the name in the code
        buf.close(**keywords)
        assert buf.is_closed
    assert resource.live_buffers == 0


def test_python_sees_the_protocol(pm: ModuleType) -> None:
    """The protocol is a method as well from 3.12 on: collections.abc.Buffer looks for it."""
    for kind in (pm.Buffer, pm.PitchedBuffer, pm.View):
        assert hasattr(kind, "__buffer__") == (sys.version_info >= (3, 12))


def test_truth_is_being_open(pm: ModuleType, pinned_resource: Any) -> None:
    """The size does not decide: "if buffer:" asks whether there is one to use."""
    for nbytes in (0, 10):
        with pinned_resource.allocate(nbytes) as buf, buf.view() as view, buf[:] as part:
            assert (bool(buf), bool(view), bool(part)) == (True, True, True)
        assert (bool(buf), bool(view), bool(part)) == (False, False, False)


def test_going_through_a_view(pm: ModuleType, pinned_resource: Any) -> None:
    with pinned_resource.allocate(6) as buf, buf.view(shape=(3, 2)) as view:
        parts = list(view)
        assert [part.shape for part in parts] == [(2,)] * 3
        for part in parts:
            part.close()
    with pinned_resource.allocate(4) as buf, buf.view("float32", ()) as scalar:
        for function in (list, iter, len):
            with pytest.raises(TypeError, match="without dimensions"):
                function(scalar)
