"""Stand-ins for the agents that the examples of others name.

Variables of the process, which are no part of what is signed, say how the agents behave:

    STAND_IN_FAILS  ids of scenarios they do not solve
    STAND_IN_MEETS  a number: an agent ends when so many are at work at the same time...
    STAND_IN_HALL   ... which have met in this directory
    STAND_IN_WAITS  a path: no agent ends before it is there
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pytest_benchjobs import Agent, AgentCall, AgentCommand, File
from pytest_benchjobs.testing import FakeProvider

NAMES = ("claude-code", "codex", "opencode", "goose", "gemini-cli", "eliza")

SCRIPT = b"""
echo "model=$BENCH_MODEL provider=$BENCH_PROVIDER timeout=$STAND_IN_TIMEOUT params=$BENCH_PARAMS"
echo "url=$BENCH_BASE_URL DEBUG=$DEBUG LOG_LEVEL=$LOG_LEVEL"
[ -n "$GITHUB_TOKEN" ] && echo "the token $GITHUB_TOKEN has ${#GITHUB_TOKEN} letters"

patience=1500
wait_a_moment() {
    patience=$((patience - 1))
    [ "$patience" -gt 0 ] || exit 9
    sleep 0.02
}
if [ -n "$STAND_IN_MEETS" ]; then
    mkdir -p "$STAND_IN_HALL" && : > "$STAND_IN_HALL/$$"
    while [ "$(ls "$STAND_IN_HALL" | wc -l)" -lt "$STAND_IN_MEETS" ]; do wait_a_moment; done
fi
while [ -n "$STAND_IN_WAITS" ] && [ ! -e "$STAND_IN_WAITS" ]; do wait_a_moment; done

case " $STAND_IN_FAILS " in *" $STAND_IN_SCENARIO "*) exit 0 ;; esac
"""


@dataclass(frozen=True)
class StandIn:
    """Tells its log what it was given, and does what the reference does."""

    name: str
    needs_model: bool = True
    trusted: bool = False

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        reference = call.scenario.reference
        assert reference is not None
        script = SCRIPT + (reference.script or "").encode()
        return AgentCommand(
            argv=("/bin/sh", "/bench/stand-in.sh"),
            env={"STAND_IN_SCENARIO": call.scenario.id, "STAND_IN_TIMEOUT": f"{call.timeout:g}"},
            files=(File("/bench/stand-in.sh", content=script),),
        )


def pytest_benchjobs_agents() -> Iterable[Agent]:
    return [StandIn(name) for name in NAMES]


def pytest_benchjobs_sandboxes() -> Mapping[str, type[FakeProvider]]:
    return {"fake": FakeProvider}
