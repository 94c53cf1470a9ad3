"""`baseline:perfect|wrong|half|random`: agents without a model, whose results are known in advance.

They test a benchmark, and everything that handles its results, with certain results; they measure nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..model.errors import AgentSetupFailed

if TYPE_CHECKING:
    from .protocol import Agent, AgentCall, AgentCommand

NAME = "baseline"
_RANDOM = re.compile(r"random(?::(?P<share>[0-9.]+)(?::(?P<seed>[0-9]{1,18}))?)?\Z")
_SHARE = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Baseline:
    """Applies the reference solution, or does nothing.

    `perfect` always applies it, `wrong` never. `half` applies it to the scenarios whose id has a digest in the lower
    half, in all attempts. `random[:SHARE[:SEED]]` applies it to a share of trials (0.5), chosen by a digest of the seed
    (0), the scenario's id and the attempt: differently in each attempt, and the same in each job.
    """

    oracle: Agent
    name: str = NAME
    needs_model: bool = True
    trusted: bool = True
    parameters: frozenset[str] = frozenset()

    def answers(self, params: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """True: it knows the answer."""
        return True

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        """The reference, as a command; or None.

        Raises AgentSetupFailed: there is no such baseline; the scenario has no reference solution.
        """
        return self.oracle.prepare(call) if _solves(call) else None


def half_solves(scenario: str) -> bool:
    """True if `baseline:half` solves the scenario with this id."""
    return _fraction("half", scenario) < 0.5


def _solves(call: AgentCall) -> bool:
    kind = call.spec.model or ""
    if kind in ("perfect", "wrong"):
        return kind == "perfect"
    scenario = call.scenario.id
    if kind == "half":
        return half_solves(scenario)
    match = _RANDOM.match(kind)
    try:
        share = float(match["share"] or _SHARE) if match is not None else math.nan
    except ValueError:
        share = math.nan
    if match is None or not 0 <= share <= 1:
        raise AgentSetupFailed(
            f"unknown baseline agent {kind[:100]!r}; there are perfect, wrong, half and random[:SHARE[:SEED]] with a "
            "share from 0 to 1, such as baseline:random:0.25:7"
        )
    return _fraction("random", match["seed"] or "0", scenario, str(call.attempt)) < share


def _fraction(*words: str) -> float:
    """A number in [0, 1) that depends on `words` alone, on any machine."""
    digest = hashlib.sha256("\0".join(words).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:6], "big") / (1 << 48)
