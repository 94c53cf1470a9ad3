"""The page in fewer parts: its modules become one script, in one file its styles one element too. There is no build.

A module may import names from other modules (`import { a, b as c } from "./x.js";`, `import d from "./y.js";`) and
export functions, classes and constants; there are no cycles. Each becomes a function that returns its exports. What
breaks these rules, or would end the element that it is put into, is a ValueError.
"""

from __future__ import annotations

import base64
import hashlib
import html
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping

from .static import INDEX

ENTRY = "main.js"
_IMPORT = re.compile(
    r"""^import\s+(?:(?P<default>[\w$]+)|\{(?P<names>[^}]*)\})\s+from\s+["'](?P<file>\.{1,2}/[^"']+)["'];?[ \t]*$""",
    re.MULTILINE,
)
_EXPORT = re.compile(
    r"^export\s+(?=(?:(?:async\s+)?function\s*\*?|class|const)\s+(?P<name>[\w$]+))", re.MULTILINE
)
_LIST = re.compile(r"export\s*\{(?P<names>[^}]*)\};?\s*\Z")
_LEFT = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_META = re.compile(r'<meta name="benchjobs-source" content="http">')
_STYLE = re.compile(r'^<link rel="stylesheet" href="static/(?P<file>[^"]+)">\n', re.MULTILINE)
_SCRIPT = re.compile(r'^<script type="module" src="static/main\.js"></script>\n', re.MULTILINE)
_NOSCRIPT = re.compile(r"<noscript>.*?</noscript>", re.DOTALL)
_NEEDS = "<noscript><p>This page needs JavaScript.</p></noscript>"


def script_of(files: Mapping[str, bytes]) -> str:
    """Return all modules as one script."""
    names: dict[str, str] = {}
    parts = [*_modules(files, ENTRY, names, ())]
    return _harmless('"use strict";\n' + "".join(parts))


def page_parts(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return path -> content of what the page loads: its modules as one script, as each request is a wait."""
    others = {name: data for name, data in files.items() if name != INDEX and not name.endswith(".js")}
    return {**others, ENTRY: script_of(files).encode()}


def style_of(files: Mapping[str, bytes]) -> str:
    """Return the styles of the page, in its order."""
    page = files[INDEX].decode()
    return _harmless("".join(files[match["file"]].decode() for match in _STYLE.finditer(page)))


def one_page(files: Mapping[str, bytes], data: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """Yield the page with everything in it; `data` are ids of elements and their content, compressed by gzip."""
    script, style = script_of(files), style_of(files)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    before, after = _divided(files, "embedded", policy, f"<style>{style}</style>\n")
    yield before.encode()
    for name, content in data:
        yield b'<script type="application/gzip+base64" id="%s">' % html.escape(name).encode()
        yield base64.b64encode(content)
        yield b"</script>\n"
    yield f"<script>{script}</script>\n{after}".encode()


def page_of_files(files: Mapping[str, bytes]) -> bytes:
    """Return the page of the form with many files, which has its data beside it."""
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'"
    )
    links = "".join(match[0] for match in _STYLE.finditer(files[INDEX].decode()))
    before, after = _divided(files, "files", policy, links)
    # Browsers run no module of a page that is opened as a file.
    said = "Loading. From a disk this page stays empty: put it on a web server."
    before = before.replace("<p>Loading</p>", f"<p>{said}</p>")
    return f'{before}<script type="module" src="static/main.js"></script>\n{after}'.encode()


def _divided(files: Mapping[str, bytes], source: str, policy: str, style: str) -> tuple[str, str]:
    """Return the page before and after its script, for another source of data."""
    page = files[INDEX].decode()
    styles = list(_STYLE.finditer(page))
    if not styles or len(_META.findall(page)) != 1 or len(_SCRIPT.findall(page)) != 1:
        raise ValueError(f"{INDEX} lacks the line of its source, of a style, or of its script")
    page = _STYLE.sub(lambda match: style if match.start() == styles[0].start() else "", page)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    page = _META.sub(f'<meta name="benchjobs-source" content="{source}">', page)
    # A policy holds for what follows it.
    page = page.replace('<meta charset="utf-8">\n', f'<meta charset="utf-8">\n{meta}', 1)
    page = _NOSCRIPT.sub(_NEEDS, page)
    if meta not in page:
        raise ValueError(f"{INDEX} lacks the line of its character set")
    before, after = _SCRIPT.split(page)
    return before, after


def _modules(
    files: Mapping[str, bytes], file: str, names: dict[str, str], above: tuple[str, ...]
) -> Iterator[str]:
    """Yield a module after those that it imports; `names` are the names of those that were yielded."""
    if file in names:
        return
    if file in above or file not in files:
        raise ValueError(f"{file}: imported in a circle, or not there")
    text = files[file].decode()
    bound = []
    for match in _IMPORT.finditer(text):
        other = posixpath.normpath(posixpath.join(posixpath.dirname(file), match["file"]))
        yield from _modules(files, other, names, (*above, file))
        wanted = f"default: {match['default']}" if match["default"] else _renamed(match["names"])
        bound.append(f"const {{ {wanted} }} = {names[other]};\n")
    text = _IMPORT.sub("", text)
    exported = [match["name"] for match in _EXPORT.finditer(text)]
    text = _EXPORT.sub("", text)
    if (listed := _LIST.search(text)) is not None:
        for one in _pairs(listed["names"]):
            inner, _, outer = one.partition(" as ")
            exported.append(f"{(outer or inner).strip()}: {inner.strip()}")
        text = text[: listed.start()]
    if (left := _LEFT.search(text)) is not None:
        raise ValueError(f"{file}: {left[0][:80]!r} is no import or export that can be put into one file")
    names[file] = f"module{len(names)}"
    yield f"const {names[file]} = (() => {{\n{''.join(bound)}{text}\nreturn {{ {', '.join(exported)} }};\n}})();\n"


def _renamed(listed: str) -> str:
    return ", ".join(re.sub(r"\s+as\s+", ": ", one) for one in _pairs(listed))


def _pairs(listed: str) -> list[str]:
    return [re.sub(r"\s+", " ", one.strip()) for one in listed.split(",") if one.strip()]


def _harmless(text: str) -> str:
    """Refuse what would end the element that the text is in."""
    if re.search(r"</(?:script|style)|<!--", text, re.IGNORECASE):
        raise ValueError("a file of the page ends the element that it is put into")
    return text


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
