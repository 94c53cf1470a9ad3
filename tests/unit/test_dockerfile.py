"""Base images are found and replaced where a builder would read them, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchjobs.sandbox.docker.dockerfile import (
    base_images,
    canonical,
    familiar,
    lookup,
    references,
    substitute,
)

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
    assert base_images(TRICKY) == ("ubuntu:24.04", "ubuntu", "python", "ghcr.io/x/uv:latest")


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


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("docker.io/library/debian:12", "debian:12"),
        ("docker.io/me/tool:1", "me/tool:1"),
        ("localhost/benchjobs-kept:a", "benchjobs-kept:a"),
        ("localhost:5000/me/tool:1", "localhost:5000/me/tool:1"),
        ("ghcr.io/docker.io/x:1", "ghcr.io/docker.io/x:1"),
        ("benchjobs-kept:a", "benchjobs-kept:a"),
    ],
)
def test_a_name_is_told_without_what_podman_adds_to_it(told: str, name: str) -> None:
    assert familiar(told) == name


@given(st.text(st.sampled_from("FROM asx\n\\#<E:$-=")))
def test_any_text_can_be_read_and_an_empty_map_changes_nothing(text: str) -> None:
    assert substitute(text, {}) == (text, {})


VARIABLES = """ARG REGISTRY=docker.io/library TAG
ARG BASE="${REGISTRY}/debian:${TAG:-12}"
FROM ${BASE} AS base
ARG BASE=later
FROM --platform=$BUILDPLATFORM \\
    # a comment
    ${BASE} AS other
FROM base${SUFFIX}
COPY --from=tools:1 /a /b
RUN --mount=type=cache,target=/x --mount=type=bind,from=mounted:2,target=/y cat --mount=from=not-this
"""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "docker.io/library/debian:12"),
        ({"TAG": "13"}, "docker.io/library/debian:13"),
        ({"TAG": "", "REGISTRY": "r.example"}, "r.example/debian:12"),
        ({"BASE": "mine:1", "UNDECLARED": "x"}, "mine:1"),
    ],
)
def test_variables_have_the_value_they_have_in_a_build(arguments: dict[str, str], expected: str) -> None:
    assert base_images(VARIABLES, arguments) == (expected, "tools:1", "mounted:2")


def test_an_image_that_is_named_by_a_variable_is_replaced() -> None:
    text, replaced = substitute(
        VARIABLES, {"debian:13": "stand-in", "mounted:2": "other:3", "tools:1": "tools:1"}, {"TAG": "13"}
    )
    assert replaced == {"docker.io/library/debian:13": "stand-in", "mounted:2": "other:3"}
    assert text == VARIABLES.replace("FROM ${BASE}", "FROM stand-in").replace(
        "    ${BASE} AS other", "    stand-in AS other"
    ).replace("mounted:2", "other:3")


@pytest.mark.parametrize(
    ("line", "image", "unset"),
    [
        ("FROM $NONE", "", ("NONE",)),
        ("ARG NONE\nFROM debian:${NONE}", "debian:", ("NONE",)),
        ("FROM debian$NONE", "debian", ("NONE",)),
        ("FROM tools-${TARGETARCH}", "tools-", ("TARGETARCH",)),
        ("FROM registry/${NONE}/tools", "registry//tools", ("NONE",)),
        ("FROM ${NONE}/tools", "/tools", ("NONE",)),
        ("FROM debian${NONE:-}", "debian", ()),
        ("ARG A=1\nFROM debian${A:+-slim}", "debian-slim", ()),
        ("ARG A=\nFROM debian${A:+-slim}${A-x}", "debian", ()),
        ("ARG A='$B'\nFROM \"x/$A\"", "x/$B", ()),
        ("ARG A=\\$B C=2\nFROM x/$C", "x/2", ()),
    ],
)
def test_a_variable_without_a_value_is_known(line: str, image: str, unset: tuple[str, ...]) -> None:
    (found,) = references(line, {})
    broken = ("", "debian:", "tools-", "registry//tools", "/tools")
    assert (found.image, found.unset, found.complete) == (image, unset, image not in broken)
    assert base_images(line) == ((image,) if found.complete else ())


def test_the_platform_needs_no_declaration() -> None:
    text = "FROM --platform=$BUILDPLATFORM tools:$BUILDOS AS tools\nFROM base-${TARGETARCH}\n"
    assert base_images(text, {"TARGETARCH": "arm64", "BUILDOS": "linux"}) == ("tools:linux", "base-arm64")
    assert base_images(text) == ()


@given(
    st.lists(
        st.sampled_from(
            [
                "FROM ",
                "COPY --from=",
                "RUN --mount=from=",
                "ARG ",
                *"asx #<E:$-={}'\"1\n\\",
                "\\\n",
                " AS ",
                "\n",
            ]
        )
    ).map("".join)
)
def test_places_are_those_of_the_text(text: str) -> None:
    for found in references(text, {}):
        assert text[found.start :].startswith(found.written)
