# SPDX-License-Identifier: MIT
"""JUnit's XML: each clause is a test case, each backend a suite."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any


def junit(document: dict[str, Any]) -> str:
    """A document of results as JUnit's XML."""
    root = ET.Element("testsuites", name="portamem conformance")
    for backend, about in document["backends"].items():
        own = [clause for clause in document["clauses"] if clause["backend"] == backend]
        counts = about["counts"]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=backend,
            tests=str(len(own)),
            failures=str(counts.get("fail", 0)),
            errors="0",
            skipped=str(counts.get("unsupported", 0) + counts.get("not-shown", 0) + counts.get("defect", 0)),
            time=str(about["seconds"]),
        )
        for clause in own:
            _clause(suite, clause)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _clause(suite: ET.Element, clause: dict[str, Any]) -> None:
    seconds = sum(case["seconds"] for case in clause["cases"])
    name = f"{clause['id']} {clause['text']}"
    element = ET.SubElement(
        suite, "testcase", classname=f"{clause['backend']}.{clause['id'].rpartition('-')[0]}", name=name
    )
    element.set("time", f"{seconds:.4f}")
    said = "\n".join(line for case in clause["cases"] for line in _words(case))
    if clause["outcome"] == "fail":
        ET.SubElement(element, "failure", message=_first_line(said)).text = said
    elif clause["outcome"] in ("unsupported", "not-shown", "defect"):
        ET.SubElement(element, "skipped", message=f"{clause['outcome']}: {_first_line(said)}")
    elif said:
        ET.SubElement(element, "system-out").text = said


def _words(case: dict[str, Any]) -> Iterator[str]:
    on = f" [{case['resource']}]" if case.get("resource") else ""
    if case.get("detail"):
        yield f"{case['check']}{on}: {case['outcome']}: {case['detail']}"
    yield from (f"{case['check']}{on}: {note}" for note in case.get("notes", ()))


def _first_line(text: str) -> str:
    return text.partition("\n")[0]
