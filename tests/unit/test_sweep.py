"""What dead processes left in an engine is removed, and nothing of anybody who may live."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest

from pytest_benchjobs.model.owner import current_owner
from pytest_benchjobs.sandbox.docker.engine import Engine
from pytest_benchjobs.sandbox.docker.sweep import abandoned, left_behind, sweep

ME = current_owner()
DEAD = ME.model_copy(update={"started": "1"})


def labels(owner: object, host: str = ME.host, deadline: float | str | None = None) -> dict[str, str]:
    found = {"benchjobs.owner": str(owner), "benchjobs.host": host}
    return found if deadline is None else {**found, "benchjobs.deadline": str(deadline)}


@pytest.mark.parametrize(
    ("of", "is_abandoned"),
    [
        (labels(ME), False),
        (labels(ME, deadline=1), False),
        (labels(DEAD), True),
        (labels(DEAD, deadline=1e18), True),
        (labels(ME, "elsewhere", 99.0), True),
        (labels(ME, "elsewhere", 100.0), False),
        (labels(ME, "elsewhere", "soon"), False),
        (labels(ME, "elsewhere"), False),
        (labels("rubbish", deadline=99.0), True),
        ({}, False),
        ({"benchjobs.owner": f"{DEAD}"}, False),
        (labels("a/b/c"), False),
    ],
)
def test_a_thing_is_abandoned_when_its_owner_is_dead_or_elsewhere_and_past_the_deadline(
    of: dict[str, str], *, is_abandoned: bool
) -> None:
    assert abandoned(of, ME, 100.0) is is_abandoned


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine with something of a dead process, something of ours, and something of nobody's."""
    made = Engine()
    removed: list[tuple[Any, ...]] = []

    def things(key: str, *names: str) -> list[dict[str, Any]]:
        return [{key: name, "Labels": labels(DEAD)} for name in names] + [
            {key: "ours", "Labels": labels(ME)},
            {key: "nobody's", "Labels": None},
            {key: "late", "Labels": labels(ME, "elsewhere", time.time() - 60)},
            {key: "not yet", "Labels": labels(ME, "elsewhere", time.time() + 60)},
        ]

    def get(path: str, **asked: Any) -> Any:
        assert asked.pop("filters") == {"label": ["benchjobs.owner"]}
        assert asked == ({"all": True} if "containers" in path else {})
        return {
            "/containers/json": things("Id", "c1", "refuses", "c2"),
            "/networks": things("Id", "n"),
            "/volumes": {"Volumes": None},
        }[path]

    def remove(name: str, **how: Any) -> None:
        if name == "refuses":
            raise docker.errors.APIError("somebody else is at it")  # type: ignore[no-untyped-call]
        removed.append((name, how))

    client = SimpleNamespace(
        remove_container=remove, remove_network=remove, remove_volume=remove, removed=removed
    )
    made._client = client  # type: ignore[assignment]
    monkeypatch.setattr(made, "get", get)
    return made


def test_what_would_be_removed_is_told_and_then_removed(engine: Engine) -> None:
    assert left_behind(engine, ME) == (["c1", "refuses", "c2", "late"], ["n", "late"], [])
    assert sweep(engine, ME) == 5
    whole = {"force": True, "v": True}
    assert engine.client.removed == [  # type: ignore[attr-defined]
        ("c1", whole), ("c2", whole), ("late", whole), ("n", {}), ("late", {}),
    ]  # fmt: skip
