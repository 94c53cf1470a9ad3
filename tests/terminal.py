"""A shell in a real terminal, which is one of tmux."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from .console import COMMAND

TMUX = shutil.which("tmux")
BENCHJOBS = shlex.join(COMMAND)
_PATIENCE = 180.0


class Terminal:
    """An interactive shell without anybody's settings. Its tmux server is nobody else's."""

    def __init__(self, directory: Path, columns: int, rows: int, **env: str) -> None:
        self._server = f"benchjobs-{os.getpid()}-{secrets.token_hex(4)}"
        command = ["env", *(f"{name}={value}" for name, value in env.items())]
        command += ["PS1=$ ", "HISTFILE=", "bash", "--norc", "--noprofile", "-i"]
        size = ["-x", str(columns), "-y", str(rows)]
        self._tmux("-f", "/dev/null", "new-session", "-d", "-s", "it", *size, "-c", str(directory), *command)
        self.until(lambda text: text.startswith("$"))

    def type(self, text: str) -> None:
        """A command."""
        self._tmux("send-keys", "-t", "it", "-l", text)
        self.press("Enter")

    def press(self, key: str) -> None:
        """A key by its name in tmux: `C-c`."""
        self._tmux("send-keys", "-t", "it", key)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-t", "it", "-x", str(columns), "-y", str(rows))

    def text(self) -> str:
        """What there is to see."""
        return self._tmux("capture-pane", "-p", "-t", "it").rstrip("\n")

    def styled(self) -> str:
        """The same with its colours, as escape sequences."""
        return self._tmux("capture-pane", "-p", "-e", "-t", "it").rstrip("\n")

    def until(self, condition: Callable[[str], object]) -> str:
        """Wait until what there is to see is so."""
        deadline = time.monotonic() + _PATIENCE
        while not condition(text := self.text()):
            assert time.monotonic() < deadline, f"it never came to that:\n{text}"
            time.sleep(0.05)  # between two looks
        return text

    def mode(self) -> dict[str, bool]:
        """Whether the alternate screen is on, the cursor shown, and long lines wrap."""
        flags = self._tmux("display-message", "-p", "-t", "it", "#{alternate_on} #{cursor_flag} #{wrap_flag}")
        return dict(
            zip(("alternate", "cursor", "wrap"), (flag == "1" for flag in flags.split()), strict=True)
        )

    def child(self) -> int:
        """Process id of what the shell runs."""
        shell = int(self._tmux("display-message", "-p", "-t", "it", "#{pane_pid}"))
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text("ascii").split()[0])

    def close(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *arguments: str) -> str:
        assert TMUX is not None
        command = [TMUX, "-u", "-L", self._server, *arguments]
        clean = {
            name: value for name, value in os.environ.items() if name not in ("TMUX", "NO_COLOR", "COLUMNS")
        }
        return subprocess.run(command, capture_output=True, check=True, text=True, env=clean).stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
