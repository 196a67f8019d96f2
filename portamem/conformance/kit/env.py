# SPDX-License-Identifier: MIT
"""The environment of a check: the backend under test, and a tidy-up after it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import ExitStack
from types import ModuleType
from typing import TYPE_CHECKING, Any

from portamem.conformance.contract.clause import Platform
from portamem.conformance.kit import kinds, program
from portamem.conformance.kit.expect import eventually
from portamem.conformance.kit.latch import Latch
from portamem.conformance.kit.memory import KIB
from portamem.conformance.kit.outcome import Failed, NotShown, NoWitness, Unsupported
from portamem.conformance.kit.patience import Patience

if TYPE_CHECKING:
    from portamem.conformance.witness.base import Witness


class Env:
    """One check's view of a backend. Made anew for each case; ``finish`` tidies up and looks for what was left."""

    def __init__(
        self,
        pm: ModuleType,
        platform: Platform,
        ordinal: int = 0,
        *,
        patience: Patience | None = None,
        goes_on: Callable[[], None] = lambda: None,
    ) -> None:
        self.pm = pm
        self.platform = platform
        self.ordinal = ordinal
        self._patience = Patience() if patience is None else patience
        self.goes_on = goes_on
        """A check of many steps calls this at each: a case that says nothing for long is taken to hang."""
        self.emulations: list[str] = []
        self.notes: list[str] = []
        self.decided_by = ""  # the name of the witness that was asked
        self._after = ExitStack()
        self._latches: list[Latch] = []
        self._kinds: list[tuple[Any, kinds.Kind]] = []
        self._before = self._held()

    # ---- devices and streams

    @property
    def device(self) -> Any:
        """The device under test."""
        return self.pm.Device(self.ordinal)

    @property
    def other_device(self) -> Any:
        """Another device, or the clause is not shown."""
        if self.pm.device_count() < 2:
            raise NotShown(f"{self.pm.backend} has one device here")
        return self.pm.Device(1 - self.ordinal if self.ordinal < 2 else 0)

    def stream(self, device: Any = None, **options: Any) -> Any:
        """A stream of the check's own, nonblocking unless asked otherwise; closed after it."""
        return self._after.enter_context(self.pm.Stream(self.device if device is None else device, **options))

    def latch(self, stream: Any) -> Latch:
        """Holds a stream until ``release``, at the latest when the check ends. One at a time."""
        self._latches.append(Latch())
        return self._latches[-1].hold(stream)

    # ---- memory

    def resource(self, name: str, device: Any = None) -> Any:
        """A resource by its name in the table of kinds; closed after the check. Unsupported where it cannot be."""
        device = self.device if device is None else device
        kind = kinds.KINDS[name].on(direct_host_access=bool(device.capabilities.direct_host_access))
        if not kind.needs(device.capabilities):
            raise Unsupported(f"{kind.capability}: {device!r} has no memory of kind {kind.name}")
        made = kind.make(self.pm, device)
        if not kind.cls and type(made).__name__ in kinds.KNOWING:
            made.close()
            raise TypeError(
                f"the kind {name!r} makes a {type(made).__name__}, which stands over other memory: register it with "
                "cls=, the name of the class that makes its memory, such as cls='PoolMemoryResource'"
            )
        self._kinds.append((made, kind))
        self._after.callback(self._close_when_empty, made, kind)
        return made

    def kind_of(self, resource: Any) -> kinds.Kind:
        """The kind by which a resource was made here."""
        return next(kind for made, kind in self._kinds if made is resource)

    def allocate(self, resource: Any, nbytes: int | str = 64 * KIB, stream: Any = None) -> Any:
        """Allocates from any resource; one that is stream-ordered gets the default stream where none is named."""
        if stream is None and resource.is_stream_ordered:
            stream = resource.device.default_stream
        return resource.allocate(nbytes, stream=stream)

    def empty_default(self) -> None:
        """Gives back the memory that the default resource keeps, for checks that count what the device has left."""
        self.device.synchronize()
        self.pm.current_resource(self.device).trim()

    def write(self, memory: Any, data: bytes) -> None:
        """Writes any memory of that size, by a blocking copy."""
        self.pm.copy(memory, data)

    def read(self, memory: Any) -> bytes:
        """The bytes of any memory, by a blocking copy."""
        out = bytearray(memory.nbytes)
        self.pm.copy(out, memory)
        return bytes(out)

    # ---- what cannot be done in this process

    def run(self, source: str, *arguments: str, **environment: str | None) -> program.Ended:
        """Runs Python source in a process of its own; ``pm`` is the backend there. It says how that ended."""
        return program.run(self.pm.backend, source, arguments, environment)

    def output(self, source: str, *arguments: str, **environment: str | None) -> str:
        """Returns the output of a program that must exit 0 and say nothing on standard error."""
        return self.run(source, *arguments, **environment).output()

    # ---- the verdict

    def emulated(self, how: str) -> None:
        """Says that portamem did here what the vendor's runtime does not."""
        self.emulations.append(how)

    def note(self, text: str) -> None:
        """Something for the report, whatever the outcome."""
        self.notes.append(text)

    def need(self, capability: object, name: str) -> None:
        """Unsupported unless a capability is there; None, where the runtime does not say, is not."""
        if not capability:
            raise Unsupported(f"{name} is {capability} for {self.device!r}")

    def need_pending_copies(self, resource: Any) -> None:
        """Unsupported for memory of which copies may wait for their stream, whatever a latch there wants to hold."""
        if resource.kind == "system":
            raise Unsupported("copies of pageable memory wait for their stream: no latch holds them")

    @property
    def witness(self) -> Witness:
        """The vendor's own package, or the clause is not shown. What it says decides."""
        from portamem.conformance.witness import WitnessMissing, witness_for

        try:
            found = witness_for(self.pm.backend, self.ordinal)
        except WitnessMissing as missing:
            raise NoWitness(f"no witness: {missing}") from None
        self.decided_by = found.name
        return found

    @property
    def kernels(self) -> Witness:
        """A witness that can launch kernels, or the clause is not shown."""
        found = self.witness
        if not found.has_kernels:
            raise NoWitness(f"{found.name} launches no kernels here")
        return found

    # ---- afterwards

    def finish(self, *, look_for_leaks: bool) -> None:
        """Releases latches, closes what the check took from here, and, if asked, fails for memory left behind."""
        for latch in self._latches:
            latch.release()
        self._synchronize()
        self._after.close()
        self._kinds.clear()
        if any(latch.timed_out for latch in self._latches):
            raise Failed("a call waited for a latch that only the caller could release")
        if not look_for_leaks:
            return
        if self._left():
            gc.collect()
        if not self._patience.eventually(lambda: not self._left()):
            raise Failed(f"memory was left behind: {self._before} bytes before, {self._held()} after (host, devices)")

    def _synchronize(self) -> None:
        for ordinal in range(self.pm.device_count()):
            if self.pm.held(ordinal) or ordinal == self.ordinal:
                self.pm.Device(ordinal).synchronize()

    def _left(self) -> bool:
        """True where there is more than before. Less is memory that an earlier check had let go of, and that went
        late."""
        return any(now > before for now, before in zip(self._held(), self._before, strict=True))

    def _held(self) -> list[int]:
        return [self.pm.held("host"), *(self.pm.held(ordinal) for ordinal in range(self.pm.device_count()))]

    @staticmethod
    def _close_when_empty(resource: Any, kind: kinds.Kind) -> None:
        """Closes a resource and those that it stands over: a debugger or memory checker may keep the check's frame, and
        so the resource."""
        eventually(lambda: resource.is_closed or resource.live_buffers == 0, seconds=2.0)
        resource.close()
        if kind.upstream is not None:
            Env._close_when_empty(resource.upstream, kind.upstream)
