"""Base images are found and replaced where a builder would read them, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.sandbox.dockerfile import base_images, canonical, lookup, substitute

TRICKY = r"""# syntax=docker/dockerfile:1
ARG BASE=ubuntu
FROM --platform=linux/amd64 ubuntu:24.04 AS Build
RUN echo \
    FROM ubuntu:24.04
# FROM ubuntu:24.04
RUN <<EOF
FROM ubuntu:24.04
EOF
FROM $BASE AS other
FROM scratch
FROM build
from python
COPY --chown=1:1 --from=ghcr.io/x/uv:latest /uv /bin/
COPY --from=build /a /b
COPY --from=0 /a /b
"""


def test_only_images_of_others_count() -> None:
    assert base_images(TRICKY) == ("ubuntu:24.04", "python", "ghcr.io/x/uv:latest")


def test_replacing_changes_nothing_else() -> None:
    text, replaced = substitute(
        TRICKY, {"ubuntu:24.04": "mine:1", "docker.io/library/python:latest": "snake", "ghcr.io/x/uv": "uv"}
    )
    assert replaced == {"ubuntu:24.04": "mine:1", "python": "snake", "ghcr.io/x/uv:latest": "uv"}
    expected = TRICKY.replace(
        "FROM --platform=linux/amd64 ubuntu:24.04", "FROM --platform=linux/amd64 mine:1"
    )
    expected = expected.replace("from python", "from snake").replace("ghcr.io/x/uv:latest", "uv")
    assert text == expected


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("ubuntu", "docker.io/library/ubuntu:latest"),
        ("ubuntu:24.04", "docker.io/library/ubuntu:24.04"),
        ("me/app", "docker.io/me/app:latest"),
        ("localhost:5000/app", "localhost:5000/app:latest"),
        ("ghcr.io/x/y:1", "ghcr.io/x/y:1"),
        ("a@sha256:0", "docker.io/library/a@sha256:0"),
    ],
)
def test_an_image_has_one_full_name(short: str, full: str) -> None:
    assert canonical(short) == full
    assert lookup(short, {full: "other"}) == "other"
    assert lookup(short, {"another": "other"}) is None


@given(st.text(st.sampled_from("FROM asx\n\\#<E:$-=")))
def test_any_text_can_be_read_and_an_empty_map_changes_nothing(text: str) -> None:
    assert substitute(text, {}) == (text, {})
