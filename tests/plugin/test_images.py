"""`benchjobs benchmarks images` and plans: images that trials would need, their sizes, and bringing them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.schemas import obeys
from tests.support import until

from .conftest import PATIENCE, Bench, command
from .test_catalogue import described
from .test_plan import planned

PROVIDER = """
import time
from pathlib import Path

from pytest_benchjobs.model.errors import ImageBuildFailed, ImageMissing
from pytest_benchjobs.model.image import ImageSize

HERE = Path(__file__).parent
AT_ONCE = []

def note(word, name):
    with (HERE / "asked").open("a") as file:
        file.write(f"{word} {name}\\n")

def there(name):
    return HERE / "store" / name.replace("/", "_").replace(":", "_")

class Images(FakeProvider):
    # Images are files in `store`; a registry has those that are named `big`, `small` or `slow`.
    def name(self, environment, image_map):
        named = environment.image
        return str(environment.dockerfile) if named is None else image_map.get(named, named)

    builder = property(lambda self: self)

    def ensure(self, request, check):
        raise NotImplementedError

    def weigh(self, request, *, ask):
        environment, name = request.environment, self.name(request.environment, request.image_map)
        note("asks" if ask else "weighs", Path(name).name)
        if environment.dockerfile is not None and environment.dockerfile.read_text() == "broken":
            raise ImageBuildFailed(f"{name}: cannot be read")
        if there(name).exists():
            return ImageSize(image=name, state="here", bytes=there(name).stat().st_size)
        if environment.image is None:
            return ImageSize(image=name, state="build")
        return ImageSize(image=name, state="pull", download=2048 if ask and "big" in name else None)

    def supply(self, job, config):
        return Supply(self, config)

class Supply:
    def __init__(self, provider, config):
        self.provider, self.config, self.expected = provider, config, []

    def expect(self, place, environments):
        self.expected += environments

    def bring(self, environment, check):
        name = self.provider.name(environment, self.config.image_map)
        assert environment in self.expected
        note("brings", Path(name).name)
        half = there(name).with_suffix(".half")
        half.parent.mkdir(exist_ok=True)
        half.touch()
        try:
            AT_ONCE.append(name)
            note("at once", str(len(AT_ONCE)))
            while name.startswith("slow"):
                check()
                time.sleep(0.05)  # between two looks
            if name == "missing":
                raise ImageMissing(f"image {name} is not on this machine")
            if name == "odd":
                raise ZeroDivisionError
            if self.config.image_budget is not None and len(list(half.parent.glob("*[!f]"))) >= 2:
                return False
            half.write_text("x" * 4096)
            half.rename(there(name))
        finally:
            AT_ONCE.remove(name)
            half.unlink(missing_ok=True)
        return True

def pytest_benchjobs_sandboxes(config):
    return {"fake": Images}

from pytest_benchjobs.model.scenario import Environment
from pytest_benchjobs.sources import manifest

load = manifest.Manifest.load

def graded_elsewhere(self, id):
    scenario = load(self, id)
    if scenario.fresh_container.is_workdir:
        return scenario
    fresh = scenario.fresh_container.model_copy(update={"environment": Environment(image="small")})
    return scenario.model_copy(update={"fresh_container": fresh})

manifest.Manifest.load = graded_elsewhere
"""


@pytest.fixture
def many(bench: Bench) -> Bench:
    """Two scenarios of one image, two of another, of which one is graded in the first, and one that is built."""
    bench.conftest(PROVIDER)
    bench.write("task/Dockerfile", "FROM small\n")
    bench.write("store/small", "x" * 1024)
    bench.manifest(
        {
            "one": {"image": "small"},
            "two": {"image": "small"},
            "three": {"image": "big"},
            "four": {"image": "big", "fresh_container": {"paths": ["out.txt"]}},
            "five": {"dockerfile": "task/Dockerfile"},
        },
        defaults={},
    )
    return bench


def asked(bench: Bench, word: str) -> list[str]:
    path = bench.path / "asked"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [line.removeprefix(f"{word} ") for line in lines if line.startswith(f"{word} ")]


def images(bench: Bench, *arguments: str) -> subprocess.CompletedProcess[str]:
    return bench.benchjobs("benchmarks", "images", *arguments)


def listed(bench: Bench, *arguments: str, status: int = 0) -> dict[str, Any]:
    done = images(bench, "-o", "json", *arguments)
    assert done.returncode == status, done.stderr
    document = json.loads(done.stdout)
    obeys(document, "images")
    return document  # type: ignore[no-any-return]


def states(document: dict[str, Any]) -> dict[str, tuple[str, int]]:
    return {Path(image["image"]).name: (image["state"], image["scenarios"]) for image in document["images"]}


# Plans


def test_a_plan_says_how_many_images_and_bytes_and_weighs_each_once(many: Bench) -> None:
    arguments = ("--benchmarks", "many.bench.yaml", "--agent", "oracle", "nop", "--n-attempts", "2")
    document = planned(many, *arguments)
    assert sorted(asked(many, "weighs")) == ["Dockerfile", "big", "small"]
    assert asked(many, "asks") == []
    assert [(Path(image["image"]).name, image["state"], image["bytes"], image["trials"]) for image in document["images"]] == [
        ("small", "here", 1024, 12), ("big", "pull", None, 8), ("Dockerfile", "build", None, 4),
    ]  # fmt: skip
    assert document["image_totals"] == [
        {"state": "here", "images": 1, "bytes": 1024, "unknown": 0},
        {"state": "pull", "images": 1, "bytes": 0, "unknown": 1},
        {"state": "build", "images": 1, "bytes": 0, "unknown": 1},
    ]
    four = next(trial for trial in document["selected"] if trial["scenario"] == "four")
    assert [image["image"] for image in four["images"]] == ["big", "small"]
    lines = many.benchjobs("plan", *arguments).stdout.splitlines()
    assert "3 images: 1 here, 1.0 KB; 1 to pull, of unknown size; 1 to build, of unknown size" in lines, lines
    assert any(line.split() == ["to", "build", "task/Dockerfile", "-", "4", "trials"] for line in lines)


def test_a_plan_names_the_first_images_and_with_e_all(many: Bench) -> None:
    many.manifest({f"task-{number}": {"image": f"image-{number}"} for number in range(30)})
    lines = many.benchjobs("plan", "--benchmarks", "many.bench.yaml").stdout.splitlines()
    assert "30 images: 30 to pull, of unknown size" in lines
    assert "  and 10 more (-e names them)" in lines
    every = many.benchjobs("plan", "--benchmarks", "many.bench.yaml", "-e").stdout
    assert "image-29" in every
    assert "-e names them" not in every


def test_what_cannot_be_weighed_would_end_in_an_error(many: Bench) -> None:
    many.write("task/Dockerfile", "broken")
    document = planned(many, "--benchmarks", "many.bench.yaml")
    (five,) = (trial for trial in document["selected"] if trial["scenario"] == "five")
    assert five["images"] == []
    assert "cannot be read" in five["problem"]


# Listed


def test_images_are_listed_with_state_size_and_scenarios(many: Bench) -> None:
    document = listed(many, "many.bench.yaml")
    assert states(document) == {"small": ("here", 3), "big": ("pull", 2), "Dockerfile": ("build", 1)}
    assert (document["scenarios"], document["without"], document["problems"]) == (5, 0, {})
    assert [image["download"] for image in document["images"]] == [None, 2048, None]
    assert asked(many, "asks") == ["big"]
    assert asked(many, "brings") == []
    done = images(many, "many.bench.yaml")
    assert (done.returncode, done.stderr) == (0, "asking registries for the sizes of 1 image\n")
    assert [line.split() for line in done.stdout.splitlines()[:4]] == [
        ["IMAGE", "STATE", "ON", "DISK", "DOWNLOAD", "SCENARIOS"], ["small", "here", "1.0", "KB", "-", "3"],
        ["big", "to", "pull", "-", "2.0", "KB", "2"], ["task/Dockerfile", "to", "build", "-", "-", "1"],
    ]  # fmt: skip
    total = "3 images: 1 here, 1.0 KB; 1 to pull, about 2.0 KB; 1 to build, of unknown size, for 5 scenarios"
    assert done.stdout.splitlines()[-1] == total


def test_selection_image_maps_and_ini_files_hold(many: Bench) -> None:
    many.write("pytest.ini", "[pytest]\nbench_sandbox = fake\nbench_image_map = big=mine\naddopts = -n 2\n")
    assert set(states(listed(many, "many.bench.yaml"))) == {"small", "mine", "Dockerfile"}
    some = states(listed(many, "many.bench.yaml", "--scenarios", "one", "three"))
    assert some == {"small": ("here", 1), "mine": ("pull", 1)}
    some = states(listed(many, "many.bench.yaml", "--", "-k", "two or five"))
    assert some == {"small": ("here", 1), "Dockerfile": ("build", 1)}
    mapped = listed(many, "many.bench.yaml", "--scenario", "one", "--", "--bench-image-map", "small=other")
    assert states(mapped) == {"other": ("pull", 1)}


def test_scenarios_that_would_be_skipped_need_no_image(many: Bench) -> None:
    many.write(
        "bench-known.toml", '[[known]]\nscenario = "t*"\nreason = "r"\nmode = "skip"\nuntil = 2999-01-31\n'
    )
    document = listed(many, "many.bench.yaml")
    assert (document["scenarios"], document["without"]) == (3, 2)
    assert states(document)["small"] == ("here", 2)


def test_a_benchmark_is_fetched_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHJOBS_CACHE", str(bench.path / "cache"))
    described(bench)
    done = images(bench, "additions")
    assert done.returncode == 0, done.stderr
    assert "sums@2: 2 scenarios" in done.stderr
    assert done.stdout == "0 images, for 0 scenarios, 2 without\n", "questions need none"


def test_where_nothing_is_selected_that_is_one_line(many: Bench) -> None:
    done = images(many, "many.bench.yaml", "--", "-k", "nothing")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "there is nothing to run" in done.stderr


def test_an_engine_that_does_not_answer_is_one_line(many: Bench) -> None:
    lines = PROVIDER + "\nfrom pytest_benchjobs.model.errors import EngineUnavailable\n"
    many.conftest(lines + "Images.problem = EngineUnavailable('no Docker Engine answers')\n")
    done = images(many, "many.bench.yaml")
    assert (done.returncode, done.stderr) == (2, "benchjobs: no Docker Engine answers\n")


# Brought


def test_what_is_missing_is_brought_and_nothing_is_lost_for_one_failure(many: Bench) -> None:
    many.manifest(
        {
            "here": {"image": "small"},
            "gone": {"image": "missing"},
            "odd": {"image": "odd"},
            "built": {"dockerfile": "task/Dockerfile"},
            **{f"big-{number}": {"image": f"big-{number}"} for number in range(6)},
        },
        defaults={},
    )
    done = images(many, "many.bench.yaml", "--pull")
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert "wrong: missing: image missing is not on this machine" in lines
    assert "wrong: odd: ZeroDivisionError" in lines
    assert lines[-1].startswith("10 images: 8 here, ")
    assert asked(many, "asks") == [], "with --pull no registry is asked for sizes alone"
    assert "small" not in asked(many, "brings")
    assert max(int(count) for count in asked(many, "at once")) <= 4
    said = done.stderr.splitlines()
    assert said[0] == "pulling or building 9 images"
    assert len(said) == 10
    assert any(line.endswith(": big-3: here, 4.0 KB") for line in said)
    assert any(line.endswith(": missing: image missing is not on this machine") for line in said)
    again = listed(many, "many.bench.yaml", "--pull", status=1)
    assert [image["image"] for image in again["images"] if image["error"]] == ["missing", "odd"]


def test_everything_is_here_afterwards(many: Bench) -> None:
    assert {image["state"] for image in listed(many, "many.bench.yaml", "--pull")["images"]} == {"here"}
    done = images(many, "many.bench.yaml", "--pull")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_that_cannot_be_read_is_named_and_the_rest_is_brought(many: Bench) -> None:
    many.write("task/Dockerfile", "broken")
    document = listed(many, "many.bench.yaml", "--pull", status=1)
    errors = {Path(image["image"]).name: image["error"] for image in document["images"]}
    assert errors["big"] is None
    assert "Dockerfile: cannot be read" in errors["Dockerfile"]
    assert states(document)["big"] == ("here", 2)


def test_what_has_no_room_is_named(many: Bench) -> None:
    many.manifest({f"big-{number}": {"image": f"big-{number}"} for number in range(4)})
    document = listed(many, "many.bench.yaml", "--pull", "--", "--bench-image-budget", "10K", status=1)
    errors = [image["error"] for image in document["images"] if image["error"] is not None]
    assert errors
    assert set(errors) == {"there is no room for it within --bench-image-budget"}
    assert len(errors) + sum(image["state"] == "here" for image in document["images"]) == 4


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.extended)])
def test_ctrl_c_ends_it_at_once_and_leaves_nothing_half(many: Bench, number: signal.Signals) -> None:
    many.manifest(
        {name: {"image": name} for name in ("slow-1", "big", "slow-2", "slow-3", "slow-4", "slow-5")}
    )
    process = subprocess.Popen(
        command("benchmarks", "images", "many.bench.yaml", "--pull"),
        cwd=many.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    until(lambda: len(asked(many, "brings")) >= 5 or process.poll() is not None)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.terminate()
    began = time.monotonic()
    stdout, _ = process.communicate(timeout=PATIENCE)
    assert time.monotonic() - began < 30
    assert (process.returncode, stdout) == (130, "")
    assert sorted(path.name for path in (many.path / "store").iterdir()) == ["big", "small"]
    assert "slow-5" not in asked(many, "brings")
