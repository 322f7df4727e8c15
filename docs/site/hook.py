"""What the site needs besides the pages: those of the top directory, and nothing from elsewhere.

The pages are written to be read in the repository too, so README.md and its neighbours stay where
they are. Here they join the site, and links between them and `docs/` are bent to fit. The build
fails if a page would fetch anything over the network when it is read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

TOP = {
    "README.md": "overview.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "LICENSE": "LICENSE",
}
"""Files of the top directory, and their names in the site."""
BENCHMARKS = "benchmarks.md"
"""Made by `make bench-page`; in the site when it is there."""
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b(?![^>]*\brel=["']?canonical)[^>]*\bhref=["']?(?:https?:)?//"""
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give the figures a place in the navigation if there are any."""
    nav: list[dict[str, Any]] = config.nav or []
    if Path(config.docs_dir, BENCHMARKS).exists():
        section = next(entry["Explanation"] for entry in nav if "Explanation" in entry)
        section.append({"Benchmarks": BENCHMARKS})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files of the top directory."""
    for name, target in TOP.items():
        text = Path(config.docs_dir).parent.joinpath(name).read_text()
        if name.endswith(".md"):
            text = _LINK.sub(_from_top, text)
        files.append(File.generated(config, target, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Bend links that lead out of `docs/`."""
    if page.file.src_uri in TOP.values():
        return markdown
    up = "../" * page.file.src_uri.count("/")
    return _LINK.sub(lambda link: _from_docs(link[0], up), markdown)


def _from_top(link: re.Match[str]) -> str:
    return TOP.get(link[0], link[0].removeprefix("docs/"))


def _from_docs(link: str, up: str) -> str:
    outside = f"{up}../"
    name = link.removeprefix(outside)
    return up + TOP[name] if link.startswith(outside) and name in TOP else link


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site that would ask the network for anything."""
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        found = _FETCHED.search(path.read_text())
        if found:
            raise PluginError(f"{path.name} fetches from elsewhere: {found[0]}")
