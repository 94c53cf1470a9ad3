"""Grading in a container of its own: what the agent left is data there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import IMAGE, by_agent, results, run

pytestmark = pytest.mark.docker

MANIFEST = f"""\
benchmark: fresh
defaults:
  image: {IMAGE}
  workdir: /app
  network: none
  agent_timeout: 120
  files: {{given.txt: given.txt, sub/old.txt: given.txt}}
  setup: mkdir -p /srv/made
  reference: echo right > out.txt; rm given.txt; mkdir new; echo 1 > new/file; echo more >> sub/old.txt
scenarios:
  - id: paths
    problem_statement: Write right to out.txt.
    fresh_container: {{paths: [out.txt]}}
    scorers:
      - {{name: right, type: command, command: "grep -qx right out.txt && test -d /srv/made && test -f given.txt && test ! -e new"}}
  - id: patch
    problem_statement: Write right to out.txt.
    fresh_container: {{patch: true}}
    scorers:
      - {{name: right, type: command, command: "grep -qx right out.txt && test $(cat new/file) = 1 && grep -q more sub/old.txt"}}
"""
EVERYWHERE = (
    "cp /bin/true /usr/bin/grep; cp /bin/true /usr/local/bin/test; echo 'echo right > /app/out.txt' >> /etc/profile; "
    "echo x > /etc/ld.so.preload; mkdir -p /logs/verifier; mkfifo out.txt; "
    "(while :; do echo 1 > /logs/verifier/reward.txt; sleep 0.01; done) >/dev/null 2>&1 &"
)
TO_THE_TESTS = "ln -s /tests/expected.txt out.txt"
IN_THE_WAY = "rm -rf given.txt sub out.txt; mkdir given.txt out.txt; echo x > sub; echo 1 > given.txt/x"


@pytest.mark.extended
def test_only_files_come_along(tmp_path: Path) -> None:
    (tmp_path / "given.txt").write_text("given\n")
    (tmp_path / "fresh.bench.yaml").write_text(MANIFEST)
    attacks = [f"--bench-agent=command:{script}" for script in (EVERYWHERE, TO_THE_TESTS, IN_THE_WAY)]
    done = run(tmp_path, "fresh.bench.yaml", "--bench-agent=oracle", "--bench-agent=nop", *attacks)
    found = by_agent(tmp_path)
    assert [(result["outcome"], result["score"]) for result in found["oracle"]] == [("passed", 1.0)] * 2, (
        done.stdout
    )
    assert [(result["outcome"], result["score"]) for result in found["nop"]] == [("failed", 0.0)] * 2
    for result in found["command"]:
        assert (result["outcome"], result["score"]) == ("failed", 0.0), result
    linked = [result for result in found["command"] if result["agent"]["model"] == TO_THE_TESTS]
    told = [f"{result['notes']} {result['failure']['message']}" for result in linked]
    assert all("not carried" in text or "cannot be carried" in text for text in told), told
    phases = [phase["name"] for phase in found["oracle"][0]["phases"]]
    assert phases[phases.index("carry") :] == ["carry", "fresh", "carry", "score:right", "remove"]


def test_the_separate_verifier_of_a_harbor_task(tmp_path: Path) -> None:
    task = tmp_path / "tasks" / "apart"
    for name, text in {
        "task.toml": f'artifacts = ["/app/out.txt"]\n[environment]\ndocker_image = "{IMAGE}"\nworkdir = "/app"\n'
        "[verifier.environment]\n",
        "instruction.md": "Write right to /app/out.txt.\n",
        "environment/.keep": "",
        "solution/solve.sh": "#!/bin/bash\necho right > /app/out.txt\necho note > /logs/artifacts/note.txt\n",
        "tests/Dockerfile": f"FROM {IMAGE}\nCOPY test.sh /tests/test.sh\nRUN touch /judge\n",
        "tests/test.sh": "#!/bin/bash\ntest -e /judge && grep -qx right /app/out.txt && grep -q note /logs/artifacts/note.txt "
        "&& echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
    }.items():
        (task / name).parent.mkdir(parents=True, exist_ok=True)
        (task / name).write_text(text)
    done = run(tmp_path, "tasks", "--bench-agent=oracle", "--bench-agent=nop")
    found = {result["agent"]["name"]: (result["outcome"], result["score"]) for result in results(tmp_path)}
    assert found == {"oracle": ("passed", 1.0), "nop": ("failed", 0.0)}, done.stdout


ODD = """\
benchmark: odd
defaults:
  problem_statement: Write done to out.txt.
  reference: echo done > out.txt
  scorers: [{name: right, type: command, command: grep -qx done out.txt}]
scenarios:
  - {id: volume, dockerfile: volume/Dockerfile, workdir: /data}
  - {id: patch-of-volume, dockerfile: volume/Dockerfile, workdir: /data, fresh_container: {patch: true}}
  - {id: beside-a-volume, dockerfile: volume/Dockerfile, workdir: /opt}
  - {id: nobody-has-a-name, dockerfile: nobody/Dockerfile}
"""


def test_an_image_may_have_its_workdir_in_a_volume_or_no_names_of_users(tmp_path: Path) -> None:
    (tmp_path / "odd.bench.yaml").write_text(ODD)
    for name, lines in {
        "volume": 'RUN mkdir /data && touch /data/seed\nVOLUME ["/data"]\nWORKDIR /data\n',
        "nobody": "RUN mkdir /app && rm /etc/passwd /etc/group\nWORKDIR /app\n",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "Dockerfile").write_text(f"FROM {IMAGE}\n{lines}")
    done = run(tmp_path, "odd.bench.yaml", "--bench-keep=always")
    found = {result["scenario"]: (result["score"], " ".join(result["notes"])) for result in results(tmp_path)}
    assert {score for score, _ in found.values()} == {1.0}, done.stdout
    # What is not kept is never graded again.
    assert {name for name, (_, notes) in found.items() if "could not be kept" in notes} == {
        "volume",
        "patch-of-volume",
    }
    assert "not kept with it: what is in volumes (/data)" in found["beside-a-volume"][1]


CARRIED = f"""\
benchmark: carried
scenarios:
  - id: program
    image: {IMAGE}
    workdir: /app
    problem_statement: Make factor say mine.
    fresh_container: {{paths: [/usr/bin/factor]}}
    scorers:
      - {{name: first, type: command, command: "factor 7 | grep -qx mine"}}
      - {{name: second, type: command, command: "factor 7 | grep -qx mine"}}
"""


def test_what_was_carried_is_there_for_each_scorer(tmp_path: Path) -> None:
    (tmp_path / "carried.bench.yaml").write_text(CARRIED)
    make = r"printf \'#!/bin/sh\necho mine\n\' > /usr/bin/factor; chmod 755 /usr/bin/factor".replace(
        "\\'", "'"
    )
    done = run(tmp_path, "carried.bench.yaml", f"--bench-agent=command:{make}")
    (found,) = results(tmp_path)
    assert (found["outcome"], found["score"]) == ("passed", 1.0), done.stdout
