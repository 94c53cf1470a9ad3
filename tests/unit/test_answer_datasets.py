"""Datasets of short answers: rows of the official schemas become scenarios, and answers to them scores."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_benchjobs.model.errors import InputError
from pytest_benchjobs.model.scenario import Scenario
from pytest_benchjobs.scoring.answers import match_of
from pytest_benchjobs.scoring.replies import Wrong
from pytest_benchjobs.sources.catalogue import find
from pytest_benchjobs.sources.catalogue.entry import Entry, Parameters, load
from pytest_benchjobs.sources.datasets.gpqa_diamond import shuffled
from pytest_benchjobs.sources.protocol import Source

SHARED = Path(__file__).parents[3] / "shared" / "data"


def entry(name: str) -> Entry:
    found = find(name)
    assert found is not None
    return found


def opened(name: str, fetched: Path, filled: Path, **params: object) -> Sequence[Source]:
    """The sources of what was fetched."""
    of = entry(name)
    if of.prepare is not None:
        filled.mkdir(exist_ok=True)
        load(of.prepare)(fetched, filled)
    return of.sources(filled if of.prepare is not None else fetched, Parameters(params))


def refused(name: str, fetched: Path, why: str) -> None:
    with pytest.raises(InputError, match=why):
        opened(name, fetched, fetched / "filled")


def scenarios(sources: Sequence[Source]) -> Iterator[Scenario]:
    for source in sources:
        for ref in source.refs():
            scenario = source.load(ref.id)
            assert (scenario.id, scenario.tags, ref.scorers) == (ref.id, ref.tags, ("answer",))
            yield scenario


def score(scenario: Scenario, answer: str, *, reply: bool = True) -> float:
    (scorer,) = scenario.scorers
    try:
        return match_of(scorer.params).grade(answer, is_reply=reply)
    except Wrong:
        return 0.0


def oracle(scenario: Scenario) -> tuple[float, float]:
    """Scores of the reference answer, as a reply and as a file."""
    assert scenario.answer is not None
    reference = scenario.answer.reference
    assert reference is not None
    return score(scenario, reference), score(scenario, reference, reply=False)


def write(path: Path, rows: Sequence[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


@pytest.mark.parametrize(
    ("file", "row", "name"),
    [
        ("test2024.jsonl", {"id": 60, "problem": "1+1?", "answer": "2", "url": "-", "solution": "-"}, "aime-2024-60"),
        ("eval/data/aime/test2025-I.jsonl", {"id": "I-1", "problem": "1+1?", "answer": "002"}, "aime-2025-I-1"),
        ("aime_2024_problems.jsonl", {"ID": "2024-II-4", "Problem": "1+1?", "Solution": "-", "Answer": 2}, "aime-2024-II-4"),
        ("aime25/test.jsonl", {"id": "0", "problem": "1+1?", "answer": "2"}, "aime-2025-0"),
    ],
)  # fmt: skip
def test_aime_is_read_from_whoever_lists_it(
    tmp_path: Path, file: str, row: dict[str, Any], name: str
) -> None:
    write(tmp_path / file, [row])
    (scenario,) = scenarios(opened("aime", tmp_path, tmp_path))
    assert (scenario.id, scenario.is_question, scenario.confidential) == (name, True, False)
    assert (scenario.tags, scenario.problem_statement[-6:]) == ((name.split("-")[1],), "\n\n1+1?")
    assert scenario.answer is not None
    assert (scenario.answer.reference, scenario.scorers[0].params["expected"]) == ("2", 2)
    assert oracle(scenario) == (1, 1)
    assert score(scenario, "So: ANSWER: 02") == 1
    assert score(scenario, "ANSWER: 1002") == 0


def test_problems_of_no_year_and_no_problems_are_told(tmp_path: Path) -> None:
    refused("aime", tmp_path, r"no \*\.jsonl files")
    write(tmp_path / "test.jsonl", [{"id": "0", "problem": "?", "answer": "2"}])
    refused("aime", tmp_path, "the year of these problems is unknown")


@pytest.mark.parametrize("row", [{"id": 1, "problem": "?", "answer": "many"}, {"id": 1, "problem": "?"}])
def test_a_wrong_problem_is_told_with_its_line(tmp_path: Path, row: dict[str, Any]) -> None:
    write(tmp_path / "test2024.jsonl", [{"id": 0, "problem": "?", "answer": 1}, row])
    (source,) = opened("aime", tmp_path, tmp_path)
    with pytest.raises(InputError, match=r"test2024\.jsonl:2: the row"):
        source.load("aime-2024-1")


TASK = {
    "train": [{"input": [[1]], "output": [[2]]}, {"input": [[3, 3]], "output": [[4, 4]]}],
    "test": [{"input": [[5]], "output": [[6]]}, {"input": [[7]], "output": [[8, 8]]}],
}


def test_a_task_of_arc_is_graded_by_the_share_of_its_test_inputs(tmp_path: Path) -> None:
    for name in ("evaluation/0934a4d8.json", "training/11111111.json"):
        (tmp_path / "data" / name).parent.mkdir(parents=True)
        (tmp_path / "data" / name).write_text(json.dumps(TASK))
    (scenario,) = scenarios(opened("arc-agi-2", tmp_path, tmp_path / "filled"))
    assert (scenario.id, scenario.tags, scenario.is_question) == ("0934a4d8", ("tests-2",), True)
    assert oracle(scenario) == (1, 1)
    half = json.dumps([{"attempt_1": [[0]], "attempt_2": [[6]]}, {"attempt_1": [[8, 9]]}])
    assert score(scenario, half, reply=False) == 0.5
    assert score(scenario, json.dumps(["[[0]]", "It is [[6]]", "[[8, 8]]", "[[0]]"])) == 1


def test_a_model_is_asked_each_test_input_of_arc_twice_as_by_its_own_harness(tmp_path: Path) -> None:
    (tmp_path / "0934a4d8.json").write_text(json.dumps(TASK))
    (scenario,) = scenarios(opened("arc-agi-2", tmp_path, tmp_path / "filled"))
    assert scenario.answer is not None
    one, again, two, last = scenario.answer.questions
    assert (one, two) == (again, last)
    assert one.endswith("--Test Input--\n[[5]]\n--End of Test Input--\n\nYour response:")
    assert "--Example 1-- \n\n INPUT: \n\n[[3, 3]]\n\nOUTPUT: \n\n[[4, 4]]\n\n" in one
    assert "[[6]]" not in one + scenario.statement_in_container
    assert "[[7]]" in two
    told = scenario.statement_in_container
    assert "--Test Input 2--\n[[7]]\n" in told
    assert "to the file `output.json`: a JSON array with an object" in told.replace("\n", " ")
    assert '{"attempt_1": GRID, "attempt_2": GRID}' in told


@pytest.mark.parametrize("text", ["{", "[]", '{"train": [], "test": [{"input": 1}]}'])
def test_what_is_no_task_of_arc_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    refused("arc-agi-2", tmp_path, r"a\.json: this is not a task of ARC")
    (tmp_path / "a.json").unlink()
    refused("arc-agi-2", tmp_path, "there are no tasks of ARC here")


COLUMNS = [
    "Pre-Revision Question", "Record ID", "Question", "Correct Answer", "Incorrect Answer 1",
    "Incorrect Answer 2", "Incorrect Answer 3", "Subdomain", "High-level domain", "Canary String",
]  # fmt: skip


def gpqa(number: int) -> dict[str, str]:
    options = {f"Incorrect Answer {at}": f"wrong {at} of {number}" for at in (1, 2, 3)}
    return {
        **dict.fromkeys(COLUMNS, "-"), **options, "Record ID": f"rec{number:03}",
        "Question": f"Which, {number}?\nSay.", "Correct Answer": f"right of {number}",
        "Subdomain": "Organic Chemistry", "High-level domain": "Chemistry",
    }  # fmt: skip


def write_table(path: Path, rows: Sequence[dict[str, str]], columns: Sequence[str] = COLUMNS) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)


def test_gpqa_is_shuffled_as_by_simple_evals_and_confidential(tmp_path: Path) -> None:
    write_table(tmp_path / "gpqa_diamond.csv", [gpqa(number) for number in range(198)])
    found = list(scenarios(opened("gpqa-diamond", tmp_path, tmp_path / "filled")))
    assert len(found) == entry("gpqa-diamond").scenarios
    draws = random.Random(0)
    orders = [draws.sample(range(4), 4) for _ in range(198)]
    for number, (scenario, order) in enumerate(zip(found, orders, strict=True)):
        letter = "ABCD"[order.index(0)]
        assert scenario.id == f"gpqa-rec{number:03}"
        assert scenario.tags == ("chemistry", "organic-chemistry")
        assert (scenario.confidential, scenario.is_question) == (True, True)
        assert f"\n{letter}) right of {number}" in scenario.problem_statement
        assert f"\n\nWhich, {number}?\nSay.\n\nA) " in scenario.problem_statement
        # It gives a file, whoever asks; a reply that is a letter alone is wrong.
        assert oracle(scenario) == (0, 1)
        scores = [score(scenario, f"Hm.\nAnswer: {one}") for one in "ABCD"]
        assert (sum(scores), scores["ABCD".index(letter)]) == (1, 1)
    assert {scenario.scorers[0].params["expected"] for scenario in found} == set("ABCD")


def test_replies_to_gpqa_are_read_as_the_job_says(tmp_path: Path) -> None:
    write_table(tmp_path / "gpqa_diamond.csv", [gpqa(0)])
    for reading, expected in (("official", 0), ("lenient", 1)):
        (scenario,) = scenarios(opened("gpqa-diamond", tmp_path, tmp_path / "filled", reading=reading))
        assert score(scenario, f"**Answer:** ({scenario.scorers[0].params['expected']})") == expected
    with pytest.raises(
        InputError, match="gpqa-diamond: reading: official or lenient is expected, not 'loose'"
    ):
        opened("gpqa-diamond", tmp_path, tmp_path / "filled", reading="loose")


def test_equal_options_have_the_first_of_their_letters() -> None:
    row = {**gpqa(0), "Incorrect Answer 1": "right of 0"}
    (made,) = shuffled(iter([row]))
    assert made["letter"] == "ABCD"[made["options"].index("right of 0")]


def test_the_table_of_gpqa_has_its_columns_and_a_checksum(tmp_path: Path) -> None:
    write_table(tmp_path / "a.csv", [gpqa(0)], [name for name in COLUMNS if name != "Incorrect Answer 2"])
    refused("gpqa-diamond", tmp_path, "the table has no column 'Incorrect Answer 2'")
    write_table(tmp_path / "a.csv", [gpqa(0), {**gpqa(1), "Correct Answer": ""}])
    refused("gpqa-diamond", tmp_path, r"a\.csv:5: the row is not whole")
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe,\n")
    refused("gpqa-diamond", tmp_path, "cannot be read as a table")
    (tmp_path / "a.csv").unlink()
    refused("gpqa-diamond", tmp_path, r"one \.csv file is expected, found none")
    of = entry("gpqa-diamond")
    (file,) = of.files
    assert (file.url, of.confidential, of.gated is not None) == (None, True, True)
    assert file.sha256 == "41d1213cd7a4998605a26c2798500652572007161b3a92817ba46b35befcd305"


def paper(name: str, dataset: Any, **more: Any) -> dict[str, Any]:
    return {
        "paper_id": name,
        "title": f"On {name}",
        "source": "expert",
        "dataset": dataset,
        "execution_requirements": {"dependencies": ["numpy", "scipy>=1.4", "it's; rm -rf /"]},
        "other_instructions": {"note": ["use", "MCMC"]},
        **more,
    }


def task(of: str, name: str, expected: Any, tolerance: Any, **more: Any) -> dict[str, Any]:
    return {
        "paper_id": of, "task_id": name, "kind": "numeric", "difficulty": 3, "description": "the slope",
        "instructions": ["First.", "Then."], "expected_output": expected, "tolerance": tolerance,
        "parents": [], **more,
    }  # fmt: skip


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    """A checkout with papers that need no data, files of the web, and files of their own."""
    root = tmp_path / "fetched" / "src" / "dataset"
    urls = ["https://example.org/a/b.tgz?x=1", "file:///etc/passwd", "https://x/$HOME"]
    web = {"kind": "wget", "url": urls}
    hugging = {"kind": "huggingface", "hf_name": ["us/data", "us/data", "x; rm -rf /"]}
    none = {"kind": "none", "data_instructions": {"access": "All is made."}}
    for one in (
        paper("free", none),
        paper("web", [web, hugging]),
        paper("own", {"kind": "local"}),
        paper("syw", none, source="showyourwork"),
    ):
        write(root / "papers" / f"{one['paper_id']}.json", [one])
    for of, name, kind in (
        *((of, "slope", "numeric") for of in ("free", "web", "own", "syw")),
        ("free", "picture", "figure"),
    ):
        row = task(of, name, {"m": 1.5, "b": [2]}, {"m": 0.1, "b": [0]}, kind=kind)
        write(root / "tasks" / of / f"{name}.json", [row])
    return tmp_path / "fetched"


def test_core_tasks_of_replicationbench_are_numbers_within_a_tolerance(papers: Path, tmp_path: Path) -> None:
    sources = opened("replicationbench", papers, tmp_path / "filled")
    assert [(ref.id, ref.tags, ref.needs_container) for ref in sources[0].refs()] == [
        ("free__slope", ("no-data", "paper-free"), False),
        ("own__slope", ("needs-data", "paper-own"), True),
        ("web__slope", ("needs-data", "paper-web"), True),
    ]
    # As the index has them, too.
    again = entry("replicationbench").sources(tmp_path / "filled")
    assert [ref.needs_container for ref in again[0].refs()] == [False, True, True]
    free, web = sources[0].load("free__slope"), sources[0].load("web__slope")
    assert (free.is_question, web.is_question) == (True, False)
    for scenario in (free, web):
        assert oracle(scenario) == (1, 1)
        assert score(scenario, '{"value": {"m": 1.59, "b": [2.0], "more": 1}}', reply=False) == 1
        assert score(scenario, '{"m": 1.59, "b": [2]}', reply=False) == 1
        assert score(scenario, '{"value": {"m": 1.61, "b": [2]}}', reply=False) == 0
    assert 'ANSWER: {"value": {"m": 1.5, "b": [2]}}' not in free.problem_statement
    assert "First.\nThen.\n\nnote: use\nMCMC\n\naccess: All is made.\n\n" in free.problem_statement
    assert score(free, 'Done.\nANSWER: {"value": {"m": 1.5, "b": [2]}}') == 1


def test_a_paper_has_an_environment_with_its_packages_and_data(papers: Path, tmp_path: Path) -> None:
    sources = opened("replicationbench", papers, tmp_path / "filled")
    dockerfile = sources[0].load("web__slope").environment.dockerfile
    assert dockerfile is not None
    text = dockerfile.read_text()
    assert "for name in 'numpy' 'scipy>=1.4'; do pip install" in text
    assert "ADD https://example.org/a/b.tgz?x=1 /app/data/b.tgz_x_1\n" in text
    assert text.count("hf download --repo-type dataset us/data --local-dir /app/data/us/data") == 1
    assert "rm -rf /\n" not in text
    assert "passwd" not in text
    assert "$HOME" not in text


def test_data_of_its_own_are_put_in_or_missed(papers: Path, tmp_path: Path) -> None:
    sources = opened("replicationbench", papers, tmp_path / "filled")
    with pytest.raises(InputError, match=r"its data are not here: put them into .*data/own"):
        sources[0].load("own__slope")
    (papers / "data" / "own").mkdir(parents=True)
    (papers / "data" / "own" / "a.csv").write_text("1")
    sources = opened("replicationbench", papers, tmp_path / "again")
    files = sources[0].load("own__slope").files
    assert (files["data/own"] / "a.csv").read_text() == "1"


def test_what_is_no_paper_or_task_is_told(papers: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there are no files papers/\*\.json"):
        opened("replicationbench", tmp_path / "nowhere", tmp_path / "filled")
    write(papers / "src" / "dataset" / "tasks" / "free" / "bad.json", [{"paper_id": "../free"}])
    refused("replicationbench", papers, r"bad\.json: cannot be read")
    write(papers / "src" / "dataset" / "tasks" / "free" / "bad.json", [task("../free", "bad", 1, 0)])
    refused("replicationbench", papers, "must be plain names")


@pytest.mark.parametrize(
    ("name", "directory", "count"), [("aime", "aime", 45), ("arc-agi-2", "arc_agi_2", 60)]
)
def test_references_of_real_rows_are_right_and_nothing_is_not(
    tmp_path: Path, name: str, directory: str, count: int
) -> None:
    if not (SHARED / directory).is_dir():
        pytest.skip(f"real rows are not here: {SHARED / directory}")
    fetched = tmp_path / "fetched"
    fetched.mkdir()
    for path in (SHARED / directory).rglob("*.json*"):
        (fetched / path.name).write_bytes(path.read_bytes())
    found = list(scenarios(opened(name, fetched, tmp_path / "filled")))
    assert len(found) == count
    assert [oracle(scenario) for scenario in found] == [(1, 1)] * count
    assert {score(scenario, "") for scenario in found} == {0}


def test_solutions_that_people_wrote_are_read(tmp_path: Path) -> None:
    rows = SHARED / "aime" / "test2024.jsonl"
    if not rows.is_file():
        pytest.skip(f"real rows are not here: {rows}")
    (tmp_path / rows.name).write_bytes(rows.read_bytes())
    solutions = [json.loads(line)["solution"] for line in rows.read_text("utf-8").splitlines()]
    found = scenarios(opened("aime", tmp_path, tmp_path))
    assert [score(one, solution) for one, solution in zip(found, solutions, strict=True)] == [1] * 30
