"""The commands by name. The module of one is imported when it is asked for: `--help` and completion stay quick."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "run": ("run", "Run benchmarks: one call of pytest."),
    "watch": ("watch", "Watch a job while it runs."),
    "list": ("list", "List jobs."),
    "runs": ("list", "List runs: one benchmark and one agent in one job."),
    "summary": ("list", "Show the results of a job."),
    "logs": ("logs", "Copy the logs of a job."),
    "export": ("export", "Write the trials of a job as CSV or JSON lines."),
    "cancel": ("cancel", "Stop a job. What has ended is kept."),
    "resume": ("resume", "Finish a job that was interrupted."),
    "rerun": ("resume", "Run the trials of a job again."),
    "rescore": ("resume", "Grade kept trials again."),
    "recover": ("cancel", "Close jobs whose process died."),
    "plan": ("plan", "Show what would run. Runs nothing."),
    "shell": ("shell", "Open a shell in a kept trial."),
    "check": ("check", "Check a benchmark."),
    "secret": ("secret", "Keep secrets for jobs on this machine."),
    "calibrate": ("calibrate", "Say whether scores of benchmarks mean anything."),
    "doctor": ("doctor", "Look for what would keep trials from running."),
    "gc": ("gc", "Remove what dead processes left behind."),
    "db": ("db", "Look after the history."),
    "compare": ("compare", "Compare two jobs, agents or models."),
    "ab": ("ab", "Run two agents in turns, and judge one by the other."),
    "view-comparison": ("compare", "Show a comparison again."),
    "baseline": ("baseline", "Set, move, list and show what jobs are judged against."),
    "gate": ("gate", "Judge a job by a baseline and by floors."),
    "merge": ("merge", "Bring in jobs of other machines."),
    "schema": ("benchmarks", "Print a JSON Schema."),
    "agents": ("agents", "List, show and fetch agents."),
    "benchmarks": ("benchmarks", "List benchmarks."),
}


class _Lazy(click.Group):
    """A group whose commands are imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f".{_COMMANDS[cmd_name][0]}", __package__)
        command: click.Command = getattr(
            module, "list_" if cmd_name == "list" else cmd_name.replace("-", "_")
        )
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="pytest-benchjobs", message="%(prog)s %(version)s")
def benchjobs() -> None:
    """Run, watch, find and repeat benchmark jobs. `benchjobs COMMAND --help` says more."""
