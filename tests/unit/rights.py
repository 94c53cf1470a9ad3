"""Work without the rights of root."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable


def as_nobody(work: Callable[[], None]) -> int | None:
    """Exit status of `work` in a process without the rights of root."""

    def drop() -> None:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        work()

    process = multiprocessing.get_context("fork").Process(target=drop)
    process.start()
    process.join()
    return process.exitcode
