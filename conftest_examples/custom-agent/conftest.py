"""An agent of one's own: an object with a name, which turns a scenario into a command that runs in its container."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_benchjobs import Agent, AgentCall, AgentCommand, File

# Put into the container just before it runs. A real agent would ask a model; this one guesses from the wording.
GUESSER = b"""
problem=$(cat "$BENCH_PROBLEM_FILE")
target=$(printf '%s' "$problem" | grep -o '/app/[a-z]*[.]txt' | tail -n 1)
case $problem in
    *"number of lines"*) wc -l < in.txt ;;
    *"number of words"*) wc -w < in.txt ;;
    *"${GUESS_WHEN:-nothing}"*) sort in.txt ;;
esac > "$target"
echo "$GUESSER_MODEL wrote $target"
"""


@dataclass(frozen=True)
class Guesser:
    """`guesser:MODEL`. Variables of `--bench-env` reach it as they are."""

    name: str = "guesser"
    needs_model: bool = True
    trusted: bool = False

    def prepare(self, call: AgentCall) -> AgentCommand | None:
        return AgentCommand(
            argv=("sh", "/bench/guesser.sh"),
            env={"GUESSER_MODEL": call.spec.model or ""},
            files=(File("/bench/guesser.sh", content=GUESSER),),
        )


def pytest_benchjobs_agents() -> list[Agent]:
    return [Guesser()]
