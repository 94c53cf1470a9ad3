"""Each setting of the table, by each of the ways to say it: the job is the same."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_benchjobs.cli._run_options import run_request
from pytest_benchjobs.cli.run import run
from pytest_benchjobs.job.job_settings import JobSettings
from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.job import JobConfig
from pytest_benchjobs.plugin.job_settings import settings_of
from pytest_benchjobs.plugin.options import INI_ALONE
from pytest_benchjobs.settings.call import split, words
from pytest_benchjobs.settings.parse import parse
from pytest_benchjobs.settings.setting import KINDS, Setting
from pytest_benchjobs.settings.table import ALIASES, BY_NAME, GROUPS, IN_FILES, SETTINGS

from .setting_examples import EXAMPLES

pytestmark = pytest.mark.when_changed

DOCS = Path(__file__).parents[2] / "docs"
ELSEWHERE = {"profile", "job_file", "env_file", "dir", "per_benchmark", "exclude"}
"""They say where settings or results are, or belong to another one; other tests are about them."""
ALONE = {"replay", "no_docker", "force", "rerun_failed", "rerun_errors"}
"""They contradict another one."""
SAID = [one for one in SETTINGS if not one.hidden and one.name not in ELSEWHERE]
TOGETHER = [one for one in SAID if one.name not in ALONE]
SETS = {"together": TOGETHER, **{name: [BY_NAME[name]] for name in sorted(ALONE)}}
PRICES = "date = 2026-11-21\n[[model]]\nnames = ['m']\ninput = 1\noutput = 1\n"


@pytest.fixture
def place(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BENCHJOBS_EXAMPLE_SECRET", "a value of twenty letters")
    monkeypatch.delenv("BENCHJOBS_ENV", raising=False)
    (pytester.path / "kept").mkdir()
    (pytester.path / "prices.toml").write_text(PRICES, "utf-8")
    (pytester.path / "durations.json").touch()
    until = datetime.date.today() + datetime.timedelta(30)
    known = f"[[known]]\nscenario = 'one'\nreason = 'It is hard'\nuntil = {until}\n"
    (pytester.path / "bench-known.toml").write_text(known, "utf-8")
    (pytester.path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    return pytester.path


def as_typed(setting: Setting) -> bool | str | tuple[str, ...]:
    if setting.kind == "flag":
        return True
    return EXAMPLES[setting.name] if setting.many else EXAMPLES[setting.name][0]


def on_line(settings: Iterable[Setting]) -> tuple[str, ...]:
    return words({setting.name: as_typed(setting) for setting in settings if setting.on_line})


def in_ini(settings: Iterable[Setting]) -> str:
    lines = ["[pytest]"]
    for setting in settings:
        typed = as_typed(setting)
        texts = ["true"] if typed is True else EXAMPLES[setting.name]
        lines.append(f"{setting.option} =" + "".join(f"\n    {text}" for text in texts))
    return "\n".join(lines) + "\n"


def in_file(setting: Setting) -> Any:
    """The example as a file has it."""
    typed = as_typed(setting)
    if setting.kind in ("whole", "number", "most", "extra"):
        return json.loads(EXAMPLES[setting.name][0])
    if setting.kind == "matrix":
        name, _, values = EXAMPLES[setting.name][0].partition("=")
        return {"parameters": {name: json.loads(f"[{values}]")}}
    if setting.kind in ("rates", "floors"):
        pairs = [text.rpartition("=") for text in EXAMPLES[setting.name]]
        return {
            name or "*": json.loads(value) if setting.kind == "rates" else value for name, _, value in pairs
        }
    if setting.written.merge == "merge" or setting.kind == "pairs":
        return dict(text.split("=", 1) for text in EXAMPLES[setting.name])
    return list(typed) if isinstance(typed, tuple) else typed


def read(pytester: pytest.Pytester, *arguments: str) -> JobSettings:
    config = pytester.parseconfig(*arguments)
    try:
        return settings_of(config)
    finally:
        config._ensure_unconfigure()


def compared(one: JobSettings) -> dict[str, Any]:
    """What a job is, to be compared."""
    fields = {
        field.name: getattr(one, field.name)
        for field in dataclasses.fields(one)
        if not field.name.startswith("_")
    }
    fields.pop("origin")
    fields["secrets"] = dict(one.secrets)
    fields["known"] = one.known is not None
    fields["matrix"] = (dict(one.matrix.parameters), list(one.matrix.exclude))
    fields["job"] = one.job.model_dump(mode="json")
    return fields


@pytest.mark.parametrize("name", SETS)
def test_an_ini_file_says_the_same_as_the_command_line(
    name: str, place: Path, pytester: pytest.Pytester
) -> None:
    settings = [one for one in SETS[name] if one.has_ini]
    expected = compared(read(pytester, *on_line(settings)))
    (place / "pytest.ini").write_text(in_ini(settings), "utf-8")
    assert compared(read(pytester)) == expected


@pytest.mark.parametrize("flag", ["--bench-job-file", "--bench-profile"])
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_file_says_the_same_as_the_command_line(
    flag: str, suffix: str, place: Path, pytester: pytest.Pytester
) -> None:
    settings = [one for one in TOGETHER if one.in_files]
    data = {one.key: in_file(one) for one in settings}
    text = json.dumps(data) if suffix == "json" else yaml.safe_dump(data)
    (place / f"job.{suffix}").write_text(text, "utf-8")
    assert compared(read(pytester, flag, f"job.{suffix}")) == compared(read(pytester, *on_line(settings)))


def test_the_environment_says_the_same_as_the_command_line(
    place: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [one for one in SAID if one.variable is not None]
    assert settings
    expected = compared(read(pytester, *on_line(settings)))
    for one in settings:
        monkeypatch.setenv(str(one.variable), json.dumps(in_file(one)))
    assert compared(read(pytester)) == expected


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("which", [0, -1], ids=["words of others", "our words"])
def test_the_console_says_the_same_as_the_command_line(
    name: str, which: int, place: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    settings = [one for one in SETS[name] if one.flags]
    typed = ["--all"]
    for one in settings:
        flag = one.flags[which].partition("/")[0]
        typed += (
            [flag] if one.kind == "flag" else [part for text in EXAMPLES[one.name] for part in (flag, text)]
        )
    call = run_request(run.make_context("run", typed).params).call
    for name_, value in call.env.items():
        monkeypatch.setenv("BENCHJOBS_ENV", json.dumps({name_: value}))
    found = compared(read(pytester, *call.arguments))
    monkeypatch.delenv("BENCHJOBS_ENV", raising=False)
    reuse = () if name == "force" else ("--bench-reuse",)
    expected = compared(read(pytester, "--bench=*", *reuse, *on_line(settings)))
    assert found == expected


@pytest.mark.parametrize("setting", [one for one in SAID if one.on_line], ids=lambda one: one.name)
def test_a_setting_changes_what_is_asked_for(
    setting: Setting, place: Path, pytester: pytest.Pytester
) -> None:
    base = () if setting.name == "agents" else ("--bench-agent=codex",)
    base += on_line([BY_NAME["baseline"]] if setting.gate and setting.name != "baseline" else [])
    assert compared(read(pytester, *base, *on_line([setting]))) != compared(read(pytester, *base))


def test_every_setting_has_what_its_row_needs() -> None:
    assert len(BY_NAME) == len(SETTINGS)
    assert len({one.option for one in SETTINGS if one.on_line}) == sum(one.on_line for one in SETTINGS)
    flags = [flag for one in SETTINGS for flags in one.flags for flag in flags.split("/")]
    assert len(flags) == len(set(flags))
    assert not set(ALIASES) & set(IN_FILES)
    for one in SETTINGS:
        assert one.kind in KINDS
        assert one.hidden or not one.on_line or one.help
        assert one.name in EXAMPLES or one.kind == "flag" or one.hidden or one.name in ELSEWHERE, one.name
        if one.kind in ("whole", "number", "most", "choice") and not one.gate:
            assert one.name in JobConfig.model_fields, f"{one.name} needs a typed field"


def test_a_call_is_data_and_words_again() -> None:
    settings = {one.name: as_typed(one) for one in SAID if one.on_line and not one.forgotten}
    rest = ("toy.bench.yaml", "-n", "2", "-k", "a or b")
    said = split(words(settings, rest))
    assert said.settings == settings
    assert said.rest == rest
    apart = split([part for word in words(settings) for part in word.split("=", 1)])
    assert apart.settings == settings
    assert split(["--bench", "--bench-plan", "--", "x"]) == ({"benchmarks": ("*",), "plan": True}, ("x",))


def test_the_page_of_options_has_the_rows_of_the_table() -> None:
    page = (DOCS / "options.md").read_text("utf-8")
    found: dict[str, list[str]] = {}
    for part in re.split(r"^### ", page, flags=re.MULTILINE)[1:]:
        title, _, rest = part.partition("\n")
        found[title] = []
        for line in rest.splitlines():
            if line.startswith("| `--bench"):
                cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                found[title].append(" | ".join((cells[0], *cells[2:])))
    expected = {}
    for title, settings in GROUPS:
        shown = [one for one in settings if one.on_line and not one.hidden]
        if shown:
            expected[title.capitalize()] = [_row(one) for one in shown]
    assert found == expected
    assert set(re.findall(r"^\| `(bench_\w+)` \|", page, re.MULTILINE)) == set(INI_ALONE)


def _row(setting: Setting) -> str:
    metavar = setting.metavar.replace("|", "\\|")
    option = f"`{setting.flag} {metavar}`" if metavar else f"`{setting.flag}`"
    ini = f"`{setting.option}`" if setting.has_ini else ""
    console = ", ".join(f"`{flag}`" for flags in setting.flags for flag in flags.split("/"))
    return f"{option} | {console} | {ini}"


def test_a_whole_number_may_be_written_with_an_exponent() -> None:
    assert parse(BY_NAME["max_tokens"], "1e6", "--bench-max-tokens") == 1_000_000
    assert parse(BY_NAME["tpm"], ["groq=2e5", "3e4"], "--bench-tpm") == {"groq": 200_000, "*": 30_000}
    for written in ("1.5", "1e-3"):
        with pytest.raises(InputError, match="--bench-max-tokens"):
            parse(BY_NAME["max_tokens"], written, "--bench-max-tokens")
