"""Images that tests build: those of benchmarks with programs that the smallest base image lacks."""

from __future__ import annotations

from pathlib import Path

import docker
import docker.errors
import pytest

from tests.support import IMAGE

# The same first layers for all of them, so that they are made once.
GIT_AND_PYTHON = f"""\
FROM {IMAGE}
RUN apt-get update && apt-get install -y --no-install-recommends git python3 && rm -rf /var/lib/apt/lists/*
"""


def build(context: Path, dockerfile: str, tag: str) -> None:
    """Build an image, or skip the test where its packages are out of reach."""
    (context / "Dockerfile").write_text(dockerfile)
    client = docker.from_env()
    try:
        client.images.build(path=str(context), tag=tag, rm=True, forcerm=True)
    except docker.errors.BuildError as error:
        pytest.skip(f"an image with git and Python cannot be built here: {str(error)[:300]}")
    finally:
        client.close()
