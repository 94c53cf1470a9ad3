"""Other plugins in the same session."""

from __future__ import annotations

import pytest

from .conftest import Bench


def test_a_time_limit_for_tests_does_not_stop_a_trial(bench: Bench) -> None:
    pytest.importorskip("pytest_timeout")
    bench.manifest({"slow": "sleep 2; echo 1"})
    for workers in ("0", "2"):
        bench.run("--timeout", "1", "-n", workers).assert_outcomes(passed=1)


def test_reruns_of_tests_do_not_run_a_trial_again_unless_it_is_marked(bench: Bench) -> None:
    pytest.importorskip("pytest_rerunfailures")
    log = bench.path / "runs"
    bench.manifest({"bad": f"echo run >> {log}; echo 0"})
    assert bench.run("--reruns", "2").parseoutcomes() == {"unsolved": 1}
    assert log.read_text().count("run") == 1
    log.unlink()
    bench.conftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.flaky(reruns=2))
        """
    )
    assert bench.run().parseoutcomes() == {"unsolved": 1, "rerun": 2}
    assert log.read_text().count("run") == 3


@pytest.mark.parametrize("scope", ["session", "function"])
def test_a_trial_that_is_run_again_is_inside_its_fixtures_again(bench: Bench, scope: str) -> None:
    pytest.importorskip("pytest_rerunfailures")
    log = bench.path / "runs"
    bench.manifest({"bad": f"echo ran >> {log}; echo 0"})
    bench.conftest(
        f"""
        from pathlib import Path
        import pytest

        def note(line):
            with (Path(__file__).parent / "runs").open("a") as file:
                print(line, file=file)

        @pytest.fixture(autouse=True, scope="{scope}")
        def around():
            note("up")
            yield
            note("down")

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.flaky(reruns=2))
        """
    )
    assert bench.run().parseoutcomes() == {"unsolved": 1, "rerun": 2}
    assert log.read_text().split() == ["up", "ran", "down"] * 3


def test_warnings_as_errors_and_strict_markers_change_nothing(bench: Bench) -> None:
    bench.toy()
    result = bench.run("--strict-markers", "-W", "error", "-p", "no:cacheprovider")
    assert result.parseoutcomes() == {"passed": 1, "unsolved": 1, "errors": 1}


def test_attributes_of_an_item_can_be_used_like_those_of_any_other(bench: Bench) -> None:
    bench.toy()
    bench.conftest(
        """
        def pytest_collection_modifyitems(items):
            for item in items:
                item.extra_keyword_matches.add("wanted")
                item.user_properties.append(("who", "me"))
                assert "easy" in item.keywords or "hard" in item.keywords or item.name.startswith("unscored")
        """
    )
    result = bench.run("-k", "wanted and solved", "--junit-xml=junit.xml")
    assert result.parseoutcomes() == {"passed": 1, "deselected": 2}
    assert '<property name="who" value="me"' in (bench.path / "junit.xml").read_text()
