"""Every page over results of all kinds: what it shows, its links, its address."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_benchjobs.model.known_failure import Known, KnownMode
from pytest_benchjobs.model.result import Failure, Phase
from pytest_benchjobs.store.bundle import JobBundle
from tests.unit.jobs import ended, make_job
from tests.unit.viewing import BEFORE, CODEX, HIDDEN, NOW_JOB, Made, make
from tests.viewer.pages import Page, side_by_side
from tests.viewer.serving import serving

pytestmark = pytest.mark.slow


def test_jobs_with_cards_filters_and_verdict(page: Page, address: str) -> None:
    page.open(address)
    assert page.page.title() == "Jobs · benchjobs"
    for said in (BEFORE, NOW_JOB, "nightly", "✗ regressed", "Latest scores", "Reference agents: oracle"):
        assert said in page.text
    page.page.select_option('select[name="branch"]', "try")
    page.drawn()
    page.until(f"!document.querySelector('[role=grid]').textContent.includes('{BEFORE}')")
    assert "branch=try" in page.page.url
    page.page.go_back()
    page.until(f"document.querySelector('[role=grid]').textContent.includes('{BEFORE}')")


def heads(page: Page) -> list[str]:
    return [head.inner_text().strip(" ▲▼") for head in page.page.query_selector_all('[role="columnheader"]')]


def test_runs_have_the_columns_and_sort_by_each(page: Page, address: str) -> None:
    page.open(address, "runs")
    assert heads(page) == ["Run", "Score", "Agent", "Benchmark", "Started", "Time", "Total tokens"]
    page.page.click("summary >> text=Columns")
    unchecked = "[...document.querySelectorAll('.columns input:not([checked])')].map((one) => one.name)"
    for name in page.run(unchecked):
        page.page.check(f'[name="{name}"]')
        page.drawn()
    assert heads(page) == [
        "Run", "Score", "Agent", "Benchmark", "High score", "Delta", "Started", "Time", "Median", "Total tokens",
        "Input tokens", "Output tokens", "Cached tokens", "Calls", "Job", "Status", "Provider", "Model",
    ]  # fmt: skip
    page.page.reload()
    page.drawn()
    assert len(heads(page)) == 18
    page.page.click('[role="columnheader"] >> text=Score')
    page.page.wait_for_selector('[aria-sort="descending"] >> text=Score')
    scores = [float(cell.inner_text()) for cell in page.page.query_selector_all('[data-column="1"][data-row]:not([data-row="-1"])')
              if cell.inner_text()[0].isdigit()]  # fmt: skip
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 1


@pytest.mark.when_changed("viewer")
def test_sorting_and_filtering_leave_readers_where_they_are(page: Page, address: str) -> None:
    page.page.set_viewport_size({"width": 1300, "height": 420})
    page.open(address, "runs")
    page.page.evaluate("document.querySelector('section').was = 'kept'")
    page.page.focus('[role="columnheader"] >> text=Score')
    page.page.evaluate("window.scrollTo(0, 100)")
    for way in ("descending", "ascending"):
        page.page.keyboard.press("Enter")
        page.page.wait_for_selector(f'[aria-sort="{way}"] >> text=Score')
        page.drawn()
        assert "sort=mean_score" in page.page.url
        assert page.page.evaluate("document.activeElement.textContent").startswith("Score")
        assert page.page.evaluate("window.scrollY") == 100
    assert page.page.evaluate("document.querySelector('section').was") == "kept"
    page.page.focus('select[name="agent"]')
    page.page.select_option('select[name="agent"]', "oracle")
    page.until("document.querySelector('#said').textContent.endsWith('runs')")
    assert page.page.evaluate("document.activeElement.name") == "agent"
    assert page.page.input_value('select[name="agent"]') == "oracle"
    page.page.click("nav >> text=Jobs")
    page.until("document.querySelector('#said').textContent === 'Jobs'")
    assert page.page.evaluate("document.activeElement.id") == "main"
    assert page.page.evaluate("window.scrollY") == 0


@pytest.mark.when_changed("viewer")
def test_the_way_back_leads_to_the_same_place(page: Page, address: str) -> None:
    page.page.set_viewport_size({"width": 1300, "height": 420})
    page.open(address, "runs")
    page.page.evaluate("window.scrollTo(0, 150)")
    link = page.page.locator("[role=grid] tbody a").first
    there = link.get_attribute("href")
    link.evaluate("(one) => one.focus({ preventScroll: true })")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("h1 >> text=Job")
    page.page.go_back()
    page.page.wait_for_selector("h1 >> text=Runs")
    page.until("document.activeElement.tagName === 'A'")
    assert page.page.evaluate("document.activeElement.getAttribute('href')") == there
    assert page.page.evaluate("window.scrollY") == 150


WITH_SCORES: tuple[tuple[str, dict[str, str]], ...] = (
    ("runs", {}), ("jobs", {}), ("scenario", {"benchmark": "texts", "scenario": "fix"}),
    ("job", {"job": NOW_JOB}),
)  # fmt: skip


@pytest.mark.parametrize("width", [1280, 390])
def test_scores_are_in_sight(page: Page, address: str, width: int) -> None:
    page.page.set_viewport_size({"width": width, "height": 900})
    for name, more in WITH_SCORES:
        page.open(address, name, **more)
        seen = page.run(
            "[...document.querySelectorAll('[role=columnheader], main th')].filter((one) => /^(Mean s|S)core/.test(one.textContent))"
            ".map((one) => one.getBoundingClientRect().right)"
        )
        assert seen, name
        assert max(seen) <= width, name
        lines = page.run(
            "[...document.querySelectorAll('td.number')].map((cell) => { const range = document.createRange();"
            " range.selectNodeContents(cell); return new Set([...range.getClientRects()].map((one) => one.top)).size; })"
        )
        assert max(lines) == 1, f"a figure of {name} is broken in two"


@pytest.mark.when_changed("viewer")
def test_no_table_is_wider_than_a_narrow_window(page: Page, address: str, made: Made) -> None:
    page.page.set_viewport_size({"width": 390, "height": 900})
    visible = (
        "document.querySelectorAll('section').forEach((one) => { one.style.contentVisibility = 'visible'; })"
    )
    for name, more in (
        *WITH_SCORES,
        ("compare", {"a": BEFORE, "b": NOW_JOB}),
        ("trend", {"benchmark": "texts"}),
        ("trial", {"job": NOW_JOB, "id": made.trials["count"]}),
    ):
        page.open(address, name, **more)
        page.run(visible)
        wide = "[...document.querySelectorAll('.frame, .scroll')].filter((one) => one.scrollWidth > one.clientWidth)"
        assert page.run(f"{wide}.map((one) => one.textContent.slice(0, 200))") == [], name
    page.open(address)
    assert page.page.is_visible("[role=grid] >> text=regressed")


@pytest.mark.when_changed("viewer")
def test_ages_grow_while_a_page_is_read(page: Page, address: str) -> None:
    page.page.clock.install()
    page.open(address)
    age = "document.querySelector('[role=grid] time').textContent"
    before = page.run(age)
    page.page.clock.fast_forward(7_200_000)
    page.until(f"{age} !== {before!r}")


EXPRESSIONS = (
    ("agent:CODEX score<0.5", {CODEX}, ""),
    ("oracle score=1", {"oracle"}, ""),
    ("agent:nobody", set(), "No runs are here that fit the filters."),
    ("score<0.5 score>=0.5", set(), "No runs are here that fit the filters."),
    ("score<half", set(), "score<half: score needs one of < <= > >= = and a number, as in score<0.5"),
    ("score<<1", set(), "score<<1: score needs one of"),
    ("score:1", set(), "score:1: score needs one of"),
    ("score <1", set(), "<1: write name, sign and number without blanks"),
    ("agent=codex", set(), "agent=codex: agent is a text; write agent:TEXT"),
    ("agent:", set(), "agent:TEXT"),
    ("scor<1", set(), "scor<1: scor is not compared with a number"),
)


@pytest.mark.when_changed("viewer")
@pytest.mark.parametrize(("expression", "agents", "said"), EXPRESSIONS)
def test_runs_are_filtered_by_an_expression(
    page: Page, address: str, expression: str, agents: set[str], said: str
) -> None:
    page.open(address, "runs", q=expression)
    shown = page.page.query_selector_all('[role=grid] tbody [data-column="2"]')
    assert {cell.inner_text() for cell in shown} == agents
    assert said in page.text


@pytest.mark.when_changed("viewer")
def test_search_finds_and_says_when_nothing_fits(page: Page, address: str) -> None:
    page.open(address, "runs", q="oracle")
    assert all("oracle" in row.inner_text() for row in page.page.query_selector_all("[role=grid] tbody tr"))
    page.page.fill('input[name="q"]', "no such thing")
    page.page.press('input[name="q"]', "Enter")
    page.page.wait_for_selector("text=No runs are here that fit the filters.")


def test_job_shows_verdict_interval_matrix_and_reasons(page: Page, address: str) -> None:
    page.open(address, "job", job=NOW_JOB)
    assert "regressed" in page.text
    assert "mean:5pp" in page.text
    assert "gate: ✗ regressed" in page.page.inner_text(".lead")
    assert not page.page.is_visible("pre.verdict")
    assert page.page.query_selector_all("svg.marks")
    rule = page.page.inner_text('section[aria-label="Gate"] tbody tr')
    assert re.search(r"\u2212\d+\.\d pp.*\u2212\d+\.\d pp to [\u2212+]?\d+\.\d pp", rule, re.DOTALL)
    drawn = page.page.query_selector("svg.interval")
    assert drawn is not None
    assert "interval" in str(drawn.get_attribute("aria-label"))
    marks = page.page.query_selector_all("a.mark")
    assert {mark.inner_text()[0] for mark in marks} >= {"✓", "✗", "!"}
    assert all(mark.get_attribute("aria-label") for mark in marks)
    assert "benchjobs summary" in page.text
    assert "Why trials did not pass" in page.text


@pytest.mark.when_changed("viewer")
def test_a_mark_of_the_matrix_opens_its_trial(page: Page, address: str) -> None:
    page.open(address, "job", job=NOW_JOB)
    page.page.click("a.mark.is-failed")
    page.page.wait_for_selector("h2 >> text=Why it failed")
    assert "page=trial" in page.page.url
    assert "benchjobs" in page.text


def sections(page: Page) -> list[str | None]:
    return [head.text_content() for head in page.page.query_selector_all("main h2")]


def test_trial_has_everything_in_its_sections(page: Page, address: str, made: Made) -> None:
    page.open(address, "trial", job=NOW_JOB, id=made.trials["fix"])
    assert sections(page) == [
        "Why it has no score", "Scorers", "Steps", "Logs", "Files", "Usage", "Other trials of this scenario", "Details",
        "Commands",
    ]  # fmt: skip


@pytest.mark.when_changed("viewer")
def test_a_known_failure_has_its_reason(page: Page, tmp_path: Path) -> None:
    known = Known(mode=KnownMode.EXPECTED_FAIL, reason="It counts lines", issue="https://tracker.example/12")
    crash = Failure(class_="agent_crashed", message="the agent exited with status 1")
    phases = (Phase(name="agent", start=0.0, end=1.0),)
    trials = [ended("F", known=known, phases=phases), ended("F", "fix", score=1.0, failure=crash)]
    make_job(tmp_path, NOW_JOB, trials)
    with serving(tmp_path) as address:
        page.open(address, "job", job=NOW_JOB)
        (mark,) = page.page.query_selector_all(".mark.known")
        assert "known failure: It counts lines" in str(mark.get_attribute("title"))
        assert "count (oracle): It counts lines (https://tracker.example/12)" in page.text
        page.page.click(".mark.known")
        page.page.wait_for_selector("text=expected to fail: It counts lines")
        assert sections(page) == [
            "Why it failed", "Scorers", "Logs", "Files", "Timeline", "Details", "Commands",
        ]  # fmt: skip
        page.open(address, "trial", job=NOW_JOB, id=trials[1].node_id)
        assert "score 1.000, which would be enough to pass" in page.page.inner_text(".lead")


@pytest.mark.when_changed("viewer")
def test_steps_are_searched(page: Page, address: str, made: Made) -> None:
    page.open(address, "trial", job=NOW_JOB, id=made.trials["fix"])
    page.page.wait_for_selector("article.step")
    whole = len(page.page.query_selector_all("article.step"))
    form = page.page.locator("form", has_text="Search the steps")
    form.locator("input").fill("no step has this")
    form.locator("input").press("Enter")
    page.page.wait_for_selector("text=0 of 0 steps that contain it")
    form.locator("input").fill("")
    form.locator("input").press("Enter")
    page.page.wait_for_selector("article.step")
    assert whole == len(page.page.query_selector_all("article.step")) > 0


@pytest.mark.when_changed("viewer")
def test_log_shows_colours_and_drops_other_escapes(page: Page, address: str, made: Made) -> None:
    page.open(address, "trial", job=NOW_JOB, id=made.trials["fix"])
    page.page.wait_for_selector("pre.log .front-1")
    assert "\x1b" not in page.page.inner_text("pre.log")


@pytest.mark.when_changed("viewer")
def test_search_of_a_log_and_opened_files_are_in_the_address(page: Page, address: str, made: Made) -> None:
    page.open(address, "trial", job=NOW_JOB, id=made.trials["fix"])
    form = page.page.locator("form", has_text="Search the log")
    form.locator("input").fill("the end")
    form.locator("input").press("Enter")
    page.until("document.querySelector('pre.log').textContent === 'the end'")
    for path in ("artifacts/change.patch", "artifacts/käse 100%.txt", "artifacts/pixel.png"):
        page.page.click(f'button[aria-label="Show {path}"]')
    page.page.click('button[aria-label="Hide artifacts/pixel.png"]')
    page.until("document.querySelectorAll('.files pre').length === 2")
    there = page.page.url
    page.page.goto("about:blank")
    page.page.goto(there)
    page.drawn()
    page.until("document.querySelector('pre.log').textContent === 'the end'")
    page.until("document.querySelectorAll('.files pre').length === 2")
    assert page.page.query_selector(".files img") is None
    assert page.page.query_selector_all('.files button[aria-expanded="true"]')
    assert page.page.locator("form", has_text="Search the log").locator("input").input_value() == "the end"


@pytest.mark.when_changed("viewer")
def test_the_address_of_many_opened_files_stays_short(page: Page, tmp_path: Path) -> None:
    made = make(tmp_path)
    (artifacts,) = JobBundle(made.directory, NOW_JOB).root.glob("trials/codex*/fix/1/artifacts")
    for number in range(60):
        (artifacts / f"{number:03}{'é' * 100}.txt").write_text("x")
    with serving(made.directory) as address:
        page.open(address, "trial", job=NOW_JOB, id=made.trials["fix"])
        page.run("document.querySelectorAll('.files button').forEach((button) => button.click())")
        page.until("document.querySelectorAll('.files pre').length >= 60")
        there = page.page.url
        assert 4000 < len(there) < 8200
        page.page.goto("about:blank")
        page.page.goto(there)
        page.drawn()
        page.until("document.querySelectorAll('.files pre').length > 5")
    page.forgive("sandbox", "Content Security")


def test_html_of_an_agent_is_in_a_frame_that_can_do_nothing(page: Page, address: str, made: Made) -> None:
    page.open(address, "trial", job=NOW_JOB, id=made.trials["fix"])
    page.page.click('button[aria-label$=".html"]')
    frame = page.page.wait_for_selector("iframe")
    assert frame is not None
    assert frame.get_attribute("sandbox") == ""
    inside = frame.content_frame()
    assert inside is not None
    inside.wait_for_load_state()
    # What its scripts did not do is looked at from the outside.
    assert page.run("window.hacked === undefined && document.title.endsWith('benchjobs')")
    page.forgive("sandbox", "Content Security Policy")


def test_confidential_trial_shows_neither_task_nor_steps(page: Page, address: str, made: Made) -> None:
    page.open(address, "trial", job=HIDDEN, id=made.trials["hidden"])
    assert "This benchmark is confidential" in page.text
    assert not page.page.query_selector_all("article.step, pre.log, .files")


def test_compare_draws_pairs_and_what_broke(page: Page, address: str) -> None:
    page.open(address, "compare", a=BEFORE, b=NOW_JOB)
    assert "✗ broke" in page.text
    pair = page.page.query_selector("svg.pair")
    assert pair is not None
    assert str(pair.get_attribute("aria-label")).startswith("A ")
    page.page.select_option('select[name="kind"]', "same")
    page.until(
        "![...document.querySelectorAll('[role=grid] .chip')].some(one => one.textContent.includes('broke'))"
    )


@pytest.mark.when_changed("viewer")
def test_comparison_that_cannot_be_says_why(page: Page, address: str) -> None:
    page.open(address, "compare", a=BEFORE, b=BEFORE, a_agent="nobody", b_agent="oracle")
    said = page.page.query_selector("[role=alert]")
    assert said is not None
    assert "nobody" in said.inner_text()
    assert page.wrong
    page.wrong.clear()


def test_two_trajectories_side_by_side_and_played_back(page: Page, address: str) -> None:
    page.open(address, "steps", **side_by_side(BEFORE, NOW_JOB, CODEX))
    assert page.page.query_selector_all(".pair-row")
    page.page.click("text=Play back")
    page.page.wait_for_selector("output")
    assert page.page.inner_text("output").startswith("step 1 of")
    page.page.click("button >> text=Next >> nth=0")
    page.until("document.querySelector('output').textContent.startsWith('step 2 of')")
    assert "step=2" in page.page.url


def test_scenario_over_time(page: Page, address: str) -> None:
    page.open(address, "scenario", benchmark="texts", scenario="fix")
    assert "95 % interval" in page.text
    assert CODEX in page.text
    assert page.page.query_selector_all(".strip .mark")


def test_trend_has_a_chart_and_its_figures(page: Page, address: str) -> None:
    page.open(address, "trend", benchmark="texts")
    assert page.page.query_selector("svg.trend") is not None
    assert "Figures" in page.text
    assert "oracle" in page.text
    page.page.select_option('select[name="by"]', "day")
    page.page.wait_for_selector("th >> text=Day")


@pytest.mark.when_changed("viewer")
def test_state_is_in_the_address(page: Page, address: str) -> None:
    page.open(address, "runs", sort="benchmark", order="asc", q="texts")
    there = page.page.url
    first = page.page.inner_text("[role=grid]")
    page.page.goto("about:blank")
    page.page.goto(there)
    page.drawn()
    assert page.page.inner_text("[role=grid]") == first
    assert page.page.input_value('input[name="q"]') == "texts"


def test_unknown_page_and_job_say_so(page: Page, address: str) -> None:
    page.open(address, "nowhere")
    assert "There is no page nowhere." in page.text
    assert [said for said in page.wrong if said.startswith("404: ") and said.endswith("?page=nowhere")]
    assert page.page.is_visible("main a >> text=To the jobs")
    page.open(address, "job", job="20990101-000000-ffffff")
    assert "20990101-000000-ffffff" in page.text
    page.forgive("404")


@pytest.mark.when_changed("viewer")
def test_dark_and_still(page: Page, address: str) -> None:
    page.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    page.open(address)
    assert page.run("getComputedStyle(document.documentElement).backgroundColor") == "rgb(20, 22, 26)"
    assert page.run("getComputedStyle(document.querySelector('main')).transitionDuration") in ("0s", "")
