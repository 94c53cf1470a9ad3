"""A setting: one row of the table. Part of every pytest run, so it imports only the standard library."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

IniType = Literal["linelist", "string", "int", "float", "bool"]
Merge = Literal["replace", "merge", "add"]


# Every pytest run makes these classes: what else a dataclass can have would cost it another millisecond.
@dataclasses.dataclass(eq=False, repr=False, match_args=False)
class Kind:
    """A kind of value: its form on a command line and in layers. The types are in `types`, by name."""

    ini: IniType = "string"
    merge: Merge = "replace"
    """Effect of a higher layer on a lower one: replace a value, merge tables key by key, or add to a list."""


KINDS = {
    "flag": Kind("bool"),
    "whole": Kind("int"),
    "number": Kind("float"),
    "most": Kind("int"),
    **dict.fromkeys(
        (
            "text",
            "choice",
            "policy",
            "sample",
            "size",
            "shard",
            "job name",
            "ci",
            "gate choice",
            "points",
            "registry",
        ),
        Kind(),
    ),
    **dict.fromkeys(("texts", "names", "scenarios", "agents", "extra", "rules"), Kind("linelist")),
    **dict.fromkeys(("patterns", "pairs", "absences"), Kind("linelist", "add")),
    **dict.fromkeys(
        (
            *("values", "table", "map", "variables", "secrets", "rates", "floors", "noise", "matrix"),
            "benchmarks",
        ),
        Kind("linelist", "merge"),
    ),
}
"""Kinds by name."""
_INI_EXPECTED: dict[IniType, str] = {
    "linelist": "a list",
    "string": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
}


@dataclasses.dataclass(eq=False, repr=False, match_args=False)
class Setting:
    """A setting of jobs, with all its names.

    The bounds of a number and the values of a choice are in the typed field, in `JobConfig` or `GateConfig`.
    """

    name: str
    """Name in layers, in `JobConfig` and, unless `key` differs, in files."""
    kind: str
    """One of `KINDS`."""
    metavar: str = ""
    help: str = ""
    _: dataclasses.KW_ONLY
    option: str = ""
    """Name in an ini file and for pytest: by default `bench_` and the name."""
    on_line: bool = True
    """True if pytest has an option for it; otherwise only files have it."""
    once: bool = False
    """True if it is for one call, so it has no ini key."""
    forgotten: bool = False
    """True if it was for that call only, so that a resumed or repeated job drops it."""
    usual: bool = False
    """True for one of the twenty usual settings in `pytest --help`; `pytest --bench-help` has all."""
    hidden: bool = False
    """True if only the `benchjobs` commands use it."""
    key: str = ""
    """Key in profiles and job files; by default the name."""
    in_files: bool = True
    aliases: tuple[str, ...] = ()
    """Other keys in files: those of other tools, and names of our options."""
    console: tuple[str, ...] = ()
    """Flags of `benchjobs run` besides the one named like the option."""
    on_console: bool = True
    apart: bool = False
    """True if it is read where it is needed, and is not a value of a layer."""
    per_benchmark: bool = False
    """True if it may differ for one benchmark."""
    signed: str | None = None
    """Part of the trial's signature that it belongs to: a change prevents the reuse of earlier results."""
    resumable: bool = False
    """True if a resume may override and record it: it decides how trials run, not what they are."""
    gate: bool = False
    """True if gates depend on it."""
    afterwards: bool = False
    """True if `benchjobs gate` may override it for an ended job."""
    variable: str | None = None
    """Environment variable that sets it, too."""

    def __post_init__(self) -> None:
        """Fill in derived names."""
        self.option = self.option or f"bench_{self.name}"
        self.key = self.key or self.name

    @property
    def flag(self) -> str:
        """Pytest's option: `--bench-agent-timeout`."""
        return f"--{self.option}".replace("_", "-")

    @property
    def has_ini(self) -> bool:
        """Return whether there is an ini key."""
        return self.on_line and not (self.once or self.hidden)

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of `benchjobs run`."""
        if not self.on_console or self.hidden or not self.on_line:
            return ()
        own = self.flag.replace("--bench-", "--")
        return self.console if own in "/".join(self.console).split("/") else (*self.console, own)

    @property
    def written(self) -> Kind:
        """The kind of its values."""
        return KINDS[self.kind]

    @property
    def many(self) -> bool:
        """Return whether it may be repeated on a command line."""
        return self.written.ini == "linelist"

    @property
    def expected(self) -> str:
        """The form required in an ini file, as text."""
        return _INI_EXPECTED[self.written.ini]


def check_given(written: Any, blame: str, *, many: bool, expected: str = "a text") -> None:
    """Check a value as it was given: it is not empty, and a list is one of texts. ValueError begins with `blame`."""
    for one in texts_of(written) if many else [written]:
        if isinstance(one, str):
            if not one.strip():
                raise ValueError(f"{blame}: it is empty; give a value, or leave it out")
        elif many:
            raise ValueError(f"{blame}: a list of texts is expected; put {one!r:.40} in quotes")
        elif isinstance(one, list):
            raise ValueError(f"{blame}: {expected} is expected, not a list")


def texts_of(written: Any) -> list[Any]:
    """Return the texts as a list: a setting that may not be repeated has one."""
    return list(written) if isinstance(written, list | tuple) else [written]
