"""Pictures of a terminal: what a program wrote to it, colours and all, as an SVG that needs no other file.

The text comes from agents and scenarios as well: it is escaped, and control characters other than colours are dropped.
"""

from __future__ import annotations

import io
import re

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.style import Style

# Rich's own format loads its font from another host, which nobody who reads a README has agreed to.
_FORMAT = """\
<svg viewBox="0 0 {width} {height}" width="{width}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-size: {char_height}px; font-family: monospace }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
_COLOUR = r"\x1b\[[0-9;]*m"
_CONTROL = re.compile(
    rf"({_COLOUR})|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-9;?]*[@-~]|\x1b[()].|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)


def picture(name: str, title: str, written: str, columns: int) -> str:
    """Draw what was written to a terminal of so many columns; `name` is that of no other picture of a page."""
    console = Console(
        record=True, file=io.StringIO(), width=columns, force_terminal=True, legacy_windows=False
    )
    for text in AnsiDecoder().decode(_CONTROL.sub(lambda control: control[1] or "", written)):
        # Each column of a table is drawn at a place of its own, so it stays there in any font.
        for number, words in enumerate(re.finditer(r"\S+(?: \S+)*", text.plain)):
            text.stylize(Style(meta={"words": number}), *words.span())
        console.print(text, no_wrap=True, overflow="crop")
    drawn = console.export_svg(title=title, code_format=_FORMAT, unique_id=name)
    # Of each end of a line rich makes a text, too.
    drawn = re.sub(r"<text[^>]*>\n</text>", "", drawn)
    return "\n".join(line.strip() for line in drawn.splitlines() if line.strip()) + "\n"
