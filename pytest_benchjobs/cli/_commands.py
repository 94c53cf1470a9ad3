"""The commands, each in a module of its name, imported when it is needed: `--help` and completion stay quick."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "run": "Run benchmarks: one call of pytest.",
    "watch": "Watch a job while it runs.",
    "list": "List jobs.",
    "runs": "List runs: one benchmark and one agent in one job.",
    "summary": "Show the results of a job.",
    "logs": "Copy the logs of a job.",
    "export": "Write the trials of a job as CSV or JSON lines.",
    "cancel": "Stop a job. What has ended is kept.",
    "resume": "Finish a job that was interrupted.",
    "rerun": "Run the trials of a job again.",
    "rescore": "Grade kept trials again.",
    "recover": "Close jobs whose process died.",
    "plan": "Show what would run. Runs nothing.",
    "shell": "Open a shell in a kept trial.",
    "check": "Check a benchmark.",
    "secret": "Keep secrets for jobs on this machine.",
    "calibrate": "Say whether scores of benchmarks mean anything.",
    "doctor": "Look for what would keep trials from running.",
    "gc": "Remove what dead processes left behind.",
    "db": "Look after the history.",
    "compare": "Compare two jobs, agents or models.",
    "ab": "Run two agents in turns, and judge one by the other.",
    "view-comparison": "Show a comparison again.",
    "baseline": "Set, move, list and show what jobs are judged against.",
    "gate": "Judge a job by a baseline and by floors.",
    "merge": "Bring in jobs of other machines.",
    "schema": "Print a JSON Schema.",
    "agents": "List, show and fetch agents.",
    "benchmarks": "List, show, fetch and check benchmarks, and bring their images.",
}


class _Lazy(click.Group):
    """A group whose commands are imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f".{name}", __package__)
        command: click.Command = getattr(module, "list_" if name == "list" else name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="pytest-benchjobs", message="%(prog)s %(version)s")
def benchjobs() -> None:
    """Run, watch, find and repeat benchmark jobs. `benchjobs COMMAND --help` says more."""
