# SPDX-License-Identifier: MIT
"""Sphinx's settings. ci/docs.sh builds the site: the source folder is the root of the checkout, so that a link between
pages, README.md and evidence/ included, is the same on the site as on a code host."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "docs"))
sys.dont_write_bytecode = True

import stub_objects  # noqa: E402
from sphinx.pycode import ModuleAnalyzer  # noqa: E402

stub_objects.install()

_version = (ROOT / "csrc/include/portamem/version.h").read_text(encoding="utf-8")
project = "portamem"
author = "the portamem authors"
copyright = author
release = version = ".".join(
    re.search(rf"PORTAMEM_VERSION_{part}\s+(\d+)", _version)[1] for part in ("MAJOR", "MINOR", "PATCH")
)

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = [
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "csrc/core/pool/README.md",
    "docs/*.md",
    "docs/*/*.md",
    "evidence/*.md",
    "examples/README.md",
    "benchmarks/README.md",
]
source_suffix = {".md": "markdown"}
nitpicky = True

myst_enable_extensions = ["attrs_block", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": True}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
add_module_names = False
python_maximum_signature_line_length = 100
# Names of Python's own libraries and of the stubs' imports, which have no page here.
nitpick_ignore_regex = [
    ("py:.*", r"(typing|collections|abc|os|datetime|types|pathlib|numpy)\..*"),
    (
        "py:.*",
        r"(Any|Self|Callable|Iterator|Sequence|SupportsIndex|SupportsFloat|SupportsInt|ModuleType|TracebackType)",
    ),
    ("py:.*", r"AbstractContextManager"),
    ("py:.*", r"portamem\.enums\._Text"),
    ("py:.*", r"(Path|PathLike|os\.PathLike|Size|Shape|StreamLike|DeviceLike|LocationLike)$"),
    ("py:.*", r"(Memory|HostMemory|BytesFile)$"),
]

# The C++ pages, where ci/docs.sh has run Doxygen.
if _xml := os.environ.get("PORTAMEM_DOXYGEN_XML"):
    extensions.append("breathe")
    breathe_projects = {"portamem": _xml}
    breathe_default_project = "portamem"
    breathe_default_members = ("members", "undoc-members")
    breathe_show_include = False
    # Doxygen knows neither the standard library nor the parts that are private.
    nitpick_ignore_regex.append(("cpp:.*", r".*"))

html_theme = "furo"
html_title = f"portamem {release}"
html_copy_source = False
html_show_sphinx = False
html_static_path = []
html_theme_options = {"sidebar_hide_name": False}


def _front_page(app: object, error: Exception | None) -> None:
    """A page at the root of the site that leads to docs/index.html, which is where the repository has it."""
    if error is None and app.builder.format == "html":
        text = '<!doctype html><meta charset="utf-8"><title>portamem</title>'
        text += '<meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">portamem</a>\n'
        (Path(app.outdir) / "index.html").write_text(text, encoding="utf-8")


def setup(app: object) -> None:
    members = ModuleAnalyzer.for_module("portamem")
    members.analyze()
    members.tagorder.update(stub_objects.source_order())
    app.connect("build-finished", _front_page)
