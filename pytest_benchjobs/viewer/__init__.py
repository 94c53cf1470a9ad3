"""The web viewer: `benchjobs serve`, and an ASGI app for a site of one's own.

    from pytest_benchjobs.viewer import app

    application = app("reports", hosts=["benchmarks.example.org"])

Start reading in `application.py`: it lists the pages. Each document has a module of its own, which knows no web server,
so exports need none. Each may raise `Refused` or a `BenchError`: `application.py` answers it. Nothing here writes
results. Imports what `job` imports, and `job`; `guard.py`, `application.py`, `streaming.py` and `sending.py` alone
import starlette, of the extra `view`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from ..model.comparison import HighScore

__all__ = ["app"]


def app(
    directory: Path | str = "reports",
    *,
    hosts: Iterable[str] = (),
    token: str | None = None,
    high_scores: Mapping[str, HighScore] | None = None,
) -> ASGIApp:
    """Return the viewer of a results directory, as an ASGI app. It can be mounted below a path.

    Args:
        directory: Where `--bench-dir` points.
        hosts: Names that browsers may call it by, besides this machine's own `localhost`; `*` for any.
        token: Text that each request has to have, in a cookie that `?token=...` sets. None: none.
        high_scores: Benchmark -> high score.

    Raises InputError: starlette is not installed.
    """
    from ..model.errors import InputError

    try:
        from .application import make_app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("starlette", "anyio"):
            raise
        raise InputError(
            "the viewer needs starlette and uvicorn: pip install 'pytest-benchjobs[view]'"
        ) from None
    return make_app(Path(directory), hosts=tuple(hosts), token=token, high_scores=dict(high_scores or {}))
