"""The commands, whose modules are imported when they are needed: `--help` and completion stay quick."""

from __future__ import annotations

import difflib
import importlib

import click

_SECTIONS = {
    "Run benchmarks": {
        "run": "Run benchmarks with agents: one call of pytest.",
        "plan": "Show what would run. Runs nothing.",
        "check": "Check a benchmark: its reference must pass, doing nothing must not.",
        "watch": "Watch a job while it runs.",
        "cancel": "Stop a job. Finished trials are kept.",
        "resume": "Finish a job that was interrupted.",
        "rerun": "Run the trials of a job again, or one trial.",
        "clone": "Start a job with the settings of another, changed where you say so.",
        "rescore": "Grade kept trials again.",
    },
    "Read results": {
        "list": "List jobs.",
        "runs": "List runs: one benchmark and one agent in one job.",
        "summary": "Show the results of a job.",
        "show": "Show everything about one trial, and what to type next.",
        "logs": "Copy the logs of a job, or of one trial.",
        "shell": "Open a shell in a kept trial.",
        "serve": "Show results in a browser.",
        "export": "Write the trials of a job as CSV, JSON lines or HTML.",
        "export-viewer-data": "Write viewer_data.json for other tools.",
    },
    "Compare and decide": {
        "compare": "Compare two jobs, agents or models.",
        "view-comparison": "Show a comparison again.",
        "ab": "Run two agents in turns, and judge one against the other.",
        "baseline": "Set, move, list and show baselines, which jobs are judged against.",
        "gate": "Judge a job against a baseline, and by floors.",
        "calibrate": "Measure how far the scores of benchmarks can be trusted.",
    },
    "Set up": {
        "init": "Write a first benchmark, an agent of this checkout and a CI file.",
        "doctor": "Check that this machine can run trials.",
        "benchmarks": "List, show, fetch and check benchmarks, and pull their images.",
        "agents": "List, show and fetch agents.",
        "secret": "Keep secrets for jobs on this machine.",
        "scenario": "Write, list, show, validate and import scenarios of your own.",
        "schema": "Print a JSON Schema.",
    },
    "Maintain": {
        "merge": "Import jobs from other machines.",
        "recover": "Close jobs whose process died.",
        "rm": "Remove jobs and their files.",
        "gc": "Remove what dead processes left behind.",
        "db": "Rebuild the history from the job directories.",
    },
}
_ELSEWHERE = {
    "resume": "rerun",
    "clone": "rerun",
    "rescore": "rerun",
    "runs": "list",
    "export-viewer-data": "export",
    "view-comparison": "compare",
    "db": "gc",
    "recover": "gc",
    "rm": "gc",
}
"""Commands in the module of another."""
_COMMANDS = {name: about for commands in _SECTIONS.values() for name, about in commands.items()}


class _Lazy(click.Group):
    """A group whose commands are imported one by one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f".{_ELSEWHERE.get(cmd_name, name)}", __package__)
        command: click.Command = getattr(module, "list_" if name == "list" else name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command; the error for an unknown one suggests a similar name."""
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            near = difflib.get_close_matches(name, _COMMANDS, n=1)
            ctx.fail(f"No such command {name!r}{f'; did you mean {near[0]!r}?' if near else ''}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an error in its call that it raises itself belongs to it, like those that click finds."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            command = self.get_command(ctx, ctx.invoked_subcommand or "")
            if error.ctx is None and command is not None:
                error.ctx = click.Context(command, info_name=ctx.invoked_subcommand, parent=ctx)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        widest = max(map(len, _COMMANDS))
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{widest}}", about) for name, about in commands.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]}, no_args_is_help=False)
@click.version_option(package_name="pytest-benchjobs", message="%(prog)s %(version)s")
def benchjobs() -> None:
    """Run, watch, find and repeat benchmark jobs. `benchjobs COMMAND --help` says more."""
