"""The full screen of a terminal: only changed lines are drawn, and its content is restored at the end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from rich.console import Console
from rich.control import Control
from rich.text import Text

# No wrap: where a character is wider than computed, the line is cut at the margin instead.
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"
_REDRAW_SECONDS = 5.0
"""Seconds between full redraws: another program may have written to the terminal."""
_REDRAW_KEY = "\x0c"


def is_possible() -> bool:
    """Return whether stdout is a terminal with a full screen, and this process is in its foreground."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        return False
    try:
        return os.tcgetpgrp(sys.stdout.fileno()) == os.getpgrp()
    except OSError:
        return False


class Screen:
    """The alternate screen, inside `full_screen`."""

    def __init__(self, wakeup: int) -> None:
        self._console = Console(force_terminal=True, highlight=False, markup=False, emoji=False)
        self._wakeup = wakeup
        self._keys: int | None = None
        self._mode: tuple[int, list[Any]] | None = None
        """Descriptor and earlier mode of the terminal."""
        self._shown: list[Text] = []
        self._redrawn = 0.0
        self._size = (0, 0)

    @property
    def size(self) -> tuple[int, int]:
        """Return the current columns and rows."""
        return os.get_terminal_size(sys.stdout.fileno())

    @property
    def can_draw(self) -> bool:
        """Return whether more than ASCII can be shown."""
        return not self._console.options.ascii_only

    def show(self, lines: Sequence[Text]) -> None:
        """Show lines, the first at the top; those beyond the screen are not shown."""
        size = self.size
        width, height = size
        now = time.monotonic()
        changed = size != self._size
        if changed or now - self._redrawn > _REDRAW_SECONDS:
            self._shown, self._redrawn, self._size = [], now, size
            self._console.size = size
        shown = [*lines[:height], *[Text()] * (height - len(lines))]
        options = self._console.options.update(width=width, height=1, no_wrap=True, overflow="crop")
        with self._console:  # one write for all
            if changed:
                self._console.control(Control.clear())
            for y, line in enumerate(shown):
                if self._shown and self._shown[y] == line:
                    continue
                self._console.update_screen_lines(self._console.render_lines(line, options), 0, y)
        self._shown = shown

    def wait(self, seconds: float) -> str:
        """Wait until a key, a signal (such as a new size) or the timeout; return the keys."""
        watched = [self._wakeup, *([] if self._keys is None else [self._keys])]
        ready, _, _ = select.select(watched, [], [], seconds)
        if self._wakeup in ready:
            os.read(self._wakeup, 512)
        if self._keys is None or self._keys not in ready:
            return ""
        data = os.read(self._keys, 512)
        if not data:
            self._keys = None  # the terminal is closed
        keys = data.decode("utf-8", "replace")
        if _REDRAW_KEY in keys:
            self._size = (0, 0)
        return keys

    def enter(self) -> None:
        """Switch to the alternate screen, without echo of typed keys."""
        with contextlib.suppress(OSError, ValueError, termios.error):
            descriptor = sys.stdin.fileno()
            self._mode = descriptor, termios.tcgetattr(descriptor)
            tty.setcbreak(descriptor, termios.TCSADRAIN)
            self._keys = descriptor
        self._size = (0, 0)
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)
        self._write(_NO_WRAP)

    def leave(self) -> None:
        """Restore the screen. Do nothing if it was not entered."""
        if self._console.is_alt_screen:
            self._write(_WRAP)
            self._console.show_cursor(True)
            self._console.set_alt_screen(False)
        if self._mode is not None:
            descriptor, mode = self._mode
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(descriptor, termios.TCSADRAIN, mode)
            self._keys = self._mode = None

    def _write(self, codes: str) -> None:
        self._console.file.write(codes)
        self._console.file.flush()


@contextlib.contextmanager
def full_screen() -> Iterator[Screen]:
    """Enter the screen and restore it at the end, also on SIGTERM and while stopped by Ctrl-Z."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    screen = Screen(reading)

    def end(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    def stop(*_: object) -> None:
        screen.leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # stopped until `fg`
        signal.signal(signal.SIGTSTP, stop)
        screen.enter()

    handlers: dict[int, Callable[[int, FrameType | None], None]] = {
        signal.SIGTERM: end,
        signal.SIGTSTP: stop,
        signal.SIGWINCH: lambda *_: None,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        screen.enter()
        yield screen
    finally:
        screen.leave()
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
