"""A scorer of one's own: a function from a finished trial to a number between 0 and 1."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pytest_benchjobs import Graded, Scorer, ScoringContext


def close_to(context: ScoringContext) -> Graded:
    """`close-to`: 1 for the exact number, less the further away it is, 0 beyond `within`."""
    params = context.spec.params
    content = context.sandbox.read(f"{context.sandbox.workdir}/{params['file']}", limit=100)
    try:
        answer = float((content or b"").decode())
    except ValueError:
        return Graded(0.0, "there is no number in the file")
    distance = abs(answer - params["target"])
    return Graded(max(0.0, 1 - distance / params["within"]), details={"answer": answer, "distance": distance})


def has_keys(context: ScoringContext) -> float:
    """`has-keys`: the share of the wanted keys that a JSON file has."""
    _, output = context.run(f"cat {context.spec.params['file']}")
    try:
        found = json.loads(output)
    except ValueError:
        return 0.0
    wanted = context.spec.params["keys"]
    return sum(key in found for key in wanted) / len(wanted)


def pytest_benchjobs_scorers() -> Mapping[str, Scorer]:
    return {"close-to": close_to, "has-keys": has_keys}
