"""Compiles the program. Needs only the standard library and ziglang: building a wheel runs this file by itself."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import tempfile
from pathlib import Path

ZIG = "0.17.1"
"""Version of ziglang: pyproject.toml has it, too."""
MACHINES = {"x86_64": "x86", "aarch64": "aarch64"}
"""Machine, as `uname -m` prints it -> its name in Linux's headers."""

_HERE = Path(__file__).parent
# Without a libc: zig would compile that first, for more than half a minute. The types and numbers are in its headers.
_OPTIONS = (
    "-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Os", "-s", "-static", "-nostdlib", "-ffreestanding",
)  # fmt: skip


class CannotCompile(Exception):
    """The message says why, and what to do."""


def sources_digest() -> str:
    """Return what names a compiled program: the digest of all it is made from."""
    made_from = sorted((*_HERE.glob("*.[ch]"), *_HERE.glob(Path(__file__).name)))
    content = b"".join(path.name.encode() + b"\0" + path.read_bytes() for path in made_from)
    return hashlib.sha256(content).hexdigest()[:16]


def compile_program(machine: str) -> bytes:
    """The program for one of `MACHINES`."""
    zig = importlib.util.find_spec("ziglang")
    if zig is None or zig.origin is None:
        raise CannotCompile(
            f"ziglang is not installed: pip install ziglang=={ZIG}, or install pytest-benchjobs from a wheel"
        )
    root = Path(zig.origin).parent
    kernel = MACHINES[machine]
    headers = (f"{machine}-linux-musl", "generic-musl", f"{kernel}-linux-any", "any-linux-any")
    include = [part for name in headers for part in ("-isystem", root / "lib/libc/include" / name)]
    with tempfile.TemporaryDirectory(prefix="benchjobs-zig-") as directory:
        program = Path(directory) / "program"
        command = [root / "zig", "cc", "-target", f"{machine}-linux-none", *_OPTIONS, *include, "-o", program]
        done = subprocess.run(
            [*command, *sorted(_HERE.glob("*.c"))],
            env={**os.environ, "ZIG_GLOBAL_CACHE_DIR": directory, "ZIG_LOCAL_CACHE_DIR": directory},
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise CannotCompile(f"zig {ZIG} does not compile it for {machine}: {said[:2000]}")
        return program.read_bytes()
