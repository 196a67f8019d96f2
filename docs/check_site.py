# SPDX-License-Identifier: MIT
"""Checks each link of a built site that leads into the site: its file is there, and its anchor too.

python docs/check_site.py FOLDER
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The anchors and the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors = {"", "top"}
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("id", "name"):
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


def broken_links(site: Path) -> list[str]:
    pages: dict[Path, _Page] = {}
    for file in site.rglob("*.html"):
        pages[file] = _Page()
        pages[file].feed(file.read_text(encoding="utf-8"))
    broken = []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if target.is_dir():
                target /= "index.html"
            known = pages.get(target)
            if not target.exists() or (known and unquote(parts.fragment) not in known.anchors):
                broken.append(f"{file.relative_to(site)}: {link}")
    return sorted(set(broken))


def main() -> None:
    site = Path(sys.argv[1]).resolve()
    broken = broken_links(site)
    print("\n".join(broken) or f"every link within the {len(list(site.rglob('*.html')))} pages of {site.name} resolves")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
