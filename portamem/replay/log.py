# SPDX-License-Identifier: MIT
"""Reads the logs that LoggingAdaptor and PORTAMEM_LOG write. Nothing is guessed: what is not whole is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMAT = "portamem-log"
VERSION = 1

_ADDRESS = re.compile("0x[0-9a-f]{1,16}")


class LogError(ValueError):
    """The reason why a log cannot be used, and the line that shows it."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line = line
        self.why = why


@dataclass(frozen=True)
class LoggedResource:
    id: int
    cls: str
    kind: str
    backend: str
    device: int


@dataclass(frozen=True)
class LoggedStream:
    id: int
    device: int
    role: str
    """``own``, or a default one: ``legacy`` or ``per_thread``."""


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A call on a resource."""

    line: int
    event: str
    """``alloc``, ``free`` or ``record``."""
    seq: int
    thread: int
    depth: int
    """Calls of resources that it was made in: a pool's to its upstream are deeper than the program's to the pool."""
    resource: int
    stream: int
    size: int
    alignment: int
    address: int
    nanoseconds: int
    error: str | None


@dataclass
class Log:
    """A whole log: its calls in their order."""

    header: dict[str, Any]
    resources: dict[int, LoggedResource] = field(default_factory=dict)
    streams: dict[int, LoggedStream] = field(default_factory=dict)
    calls: list[LoggedCall] = field(default_factory=list)


def read(path: Path) -> Log:
    """Reads a log. LogError for one that is no log, of another version, cut off, or with something unknown in it."""
    with path.open("rb") as file:
        return parse(file)


def parse(lines: Iterable[bytes]) -> Log:
    """Reads a log from its lines, each with its end."""
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        try:
            reader.add(number, line)
        except RecursionError:  # of the parser, or of a message that quotes what it took
            raise LogError(number, "no line of a log: it is nested too deeply") from None
    return reader.log()


class _Reader:
    def __init__(self) -> None:
        self._log: Log | None = None
        self._number = 0
        self._ended = False
        self._numbers: dict[int, int] = {}  # line by sequence number

    def add(self, number: int, line: bytes) -> None:
        self._number = number
        if self._ended:
            raise LogError(number, "there is more after the line that ends the log")
        if not line.endswith(b"\n"):
            raise LogError(number, "the log is cut off in this line: the program that wrote it did not come to its end")
        try:
            found = json.loads(line.decode("utf-8", errors="replace"))
        except ValueError as error:
            raise LogError(number, f"no line of a log: {error}") from None
        if not isinstance(found, dict):
            raise LogError(number, "no line of a log: a JSON object is expected")
        if self._log is None:
            self._log = Log(_header(number, found))
        else:
            self._add(self._log, found)

    def log(self) -> Log:
        if self._log is None:
            raise LogError(1, "the file is empty: the program that wrote it did not come to its end")
        if not self._ended:
            raise LogError(
                self._number + 1,
                "the log is cut off: the line that ends it is missing, so the program that wrote it did not come to "
                "its end",
            )
        self._log.calls.sort(key=lambda call: call.seq)
        return self._log

    def _add(self, log: Log, found: dict[str, Any]) -> None:
        event = found.get("event")
        if event == "resource":
            resource = LoggedResource(
                self._natural(found, "id"),
                self._text(found, "class"),
                self._text(found, "kind"),
                self._text(found, "backend"),
                self._integer(found, "device"),
            )
            log.resources[resource.id] = resource
        elif event == "stream":
            stream = LoggedStream(self._natural(found, "id"), self._integer(found, "device"), self._text(found, "role"))
            if stream.role not in ("own", "legacy", "per_thread"):
                raise LogError(self._number, f"a stream is own, legacy or per_thread, not {stream.role!r}")
            log.streams[stream.id] = stream
        elif event == "site":
            self._natural(found, "id")
        elif event in ("alloc", "free", "record"):
            log.calls.append(self._call(log, event, found))
        elif event == "close":
            self._count(self._natural(found, "seq"))
        elif event == "end":
            self._end(found)
        else:
            raise LogError(self._number, f"there is no event {event!r} in version {VERSION} of the format")

    def _call(self, log: Log, event: str, found: dict[str, Any]) -> LoggedCall:
        error = None if found.get("error") is None else self._text(found, "error")
        has_address = event != "alloc" or error is None
        call = LoggedCall(
            line=self._number,
            event=event,
            seq=self._natural(found, "seq"),
            thread=self._natural(found, "thread"),
            depth=self._natural(found, "depth"),
            resource=self._natural(found, "resource"),
            stream=self._natural(found, "stream"),
            size=self._natural(found, "size"),
            alignment=self._natural(found, "alignment") if event == "alloc" else 0,
            address=self._address(found) if has_address else 0,
            nanoseconds=self._natural(found, "ns"),
            error=error,
        )
        for what, number, known in (("resource", call.resource, log.resources), ("stream", call.stream, log.streams)):
            if number not in known:
                raise LogError(self._number, f"{what} {number} is not described in any line before")
        self._count(call.seq)
        return call

    def _count(self, seq: int) -> None:
        if seq in self._numbers:
            raise LogError(self._number, f"call {seq} is in line {self._numbers[seq]} already")
        self._numbers[seq] = self._number

    def _end(self, found: dict[str, Any]) -> None:
        expected, events = self._natural(found, "seq"), self._natural(found, "events")
        missing = next((seq for seq in range(1, expected + 1) if seq not in self._numbers), None)
        if missing is not None or not len(self._numbers) == events == expected:
            raise LogError(
                self._number,
                f"the log has {len(self._numbers)} of {expected} calls: "
                + (f"call {missing} is missing" if missing is not None else "its end does not fit the rest"),
            )
        self._ended = True

    def _integer(self, found: dict[str, Any], key: str) -> int:
        value = found.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise LogError(self._number, f"{key!r} is an int in such a line, not {value!r}")
        if not -(1 << 63) <= value < 1 << 64:
            raise LogError(self._number, f"{key!r} is an int of 64 bits in such a line: this one is out of range")
        return value

    def _natural(self, found: dict[str, Any], key: str) -> int:
        value = self._integer(found, key)
        if value < 0:
            raise LogError(self._number, f"{key!r} is an int from 0 in such a line, not {value}")
        return value

    def _text(self, found: dict[str, Any], key: str) -> str:
        value = found.get(key)
        if not isinstance(value, str):
            raise LogError(self._number, f"{key!r} is text in such a line, not {value!r}")
        return value

    def _address(self, found: dict[str, Any]) -> int:
        text = self._text(found, "address")
        if _ADDRESS.fullmatch(text) is None:  # int() would take a sign, spaces and underscores as well
            raise LogError(self._number, f"{text!r} is not an address")
        return int(text, 16)


def _header(number: int, found: dict[str, Any]) -> dict[str, Any]:
    if found.get("format") != FORMAT:
        raise LogError(number, f"this is no log of portamem: it does not begin with the format {FORMAT!r}")
    if type(found.get("version")) is not int or found["version"] != VERSION:  # true and 1.0 are equal to 1
        raise LogError(
            number,
            f"the log is of version {found.get('version')!r} of the format, and this portamem reads {VERSION}: replay "
            f"it with the portamem that wrote it ({found.get('portamem', 'unknown')})",
        )
    return found
