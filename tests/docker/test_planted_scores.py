"""A score that was planted is worth nothing, and what was tampered with is named (`hostile/attacks.py`)."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.support import IMAGE, results, run

from .hostile.attacks import APT, ATTACKS, LOCAL, OUT, RIGHT

pytestmark = pytest.mark.docker

# Built once for all runs: an image is kept by its content.
DOCKERFILE = f"""\
FROM {IMAGE}
RUN apt-get update \\
 && apt-get install -y --no-install-recommends git nodejs node-acorn perl python3-pytest \\
 && rm -rf /var/lib/apt/lists/*
RUN git init -q /repo && mkdir /check && echo 'require("acorn")' > /check/check.js
WORKDIR /app
"""
PROGRAMS = """\
bash -lc 'grep -q x /dev/null' >/dev/null 2>&1
perl -Mstrict -MList::Util=first -e 1
git -C /repo status >/dev/null 2>&1
awk 'BEGIN { exit 0 }'
echo x | iconv -f UTF-8 -t UTF-16 >/dev/null
node /check/check.js
su nobody -s /bin/sh -c true
apt-get check >/dev/null 2>&1
"""
CHECK = f"""\
def test_right():
    with open("{OUT}") as file:
        assert file.read() == "right\\n"
"""


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _native(directory: Path) -> None:
    _write(directory / "env" / "Dockerfile", DOCKERFILE)
    _write(directory / "tests" / "test_out.py", CHECK)
    _write(directory / "programs.sh", PROGRAMS)
    script = textwrap.indent(f"{PROGRAMS}grep -qx right {OUT} && echo score=1 || echo score=0\n", " " * 8)
    _write(
        directory / "planted.bench.yaml",
        f"""\
benchmark: planted
scenarios:
  - id: write-right
    dockerfile: env/Dockerfile
    network: none
    agent_timeout: 120
    problem_statement: Write right to out.txt.
    reference: echo right > out.txt
    scorers:
    - name: programs
      type: bash
      script: |
{script}
    - {{name: tests, type: tests, path: tests/}}
    - {{name: there, type: command, command: "grep -qx right {OUT}"}}
""",
    )


def _harbor(directory: Path) -> None:
    task = directory / "tasks" / "write-right"
    _write(task / "task.toml", 'schema_version = "1.3"\n[agent]\ntimeout_sec = 120\n')
    _write(task / "instruction.md", "Write right to /app/out.txt.\n")
    _write(task / "environment" / "Dockerfile", DOCKERFILE)
    _write(task / "solution" / "solve.sh", "#!/bin/bash\necho right > /app/out.txt\n")
    _write(task / "tests" / "test_out.py", CHECK)
    _write(
        task / "tests" / "test.sh",
        """\
#!/bin/bash
perl -Mstrict -e 1; awk 'BEGIN { exit 0 }'
cd /app
reward=0
python3 -P -m pytest -q /tests/test_out.py && grep -qx right /app/out.txt && reward=1
echo $reward > /logs/verifier/reward.txt
""",
    )


def _failed(found: list[dict[str, Any]], wanted: set[str]) -> None:
    """Every attack was tried, none has a score, and what had to be named was."""
    by_script = {result["agent"]["model"]: result for result in found}
    wrong = []
    for name in sorted(wanted):
        attack = ATTACKS[name]
        result = by_script[attack.script]
        tampered = set(result["agent_end"]["tampered"])
        if result["outcome"] == "passed" or result["score"]:
            wrong.append(f"{name}: score {result['score']}")
        if attack.named and not tampered & set(attack.named):
            wrong.append(f"{name}: {sorted(tampered)} is named instead of {attack.named}")
        if not attack.named and tampered:
            wrong.append(f"{name}: {sorted(tampered)} is named, for nothing")
        if result["agent_end"]["exit_status"] != 0:
            wrong.append(f"{name}: did not come to its end: {result['agent_end']}")
    assert not wrong, "\n".join(wrong)


def test_there_are_more_attacks_than_were_reported() -> None:
    assert len(ATTACKS) >= 50
    assert len({attack.script for attack in ATTACKS.values()}) == len(ATTACKS)


BY_CONTRACT = {name for name, attack in ATTACKS.items() if attack.by_contract}
# A third of the attacks is tried each day, in the one kind of task or in the other; all in both, where there is time.
DAILY = set(sorted(ATTACKS)[::3])
IN_HARBOR = set(sorted(BY_CONTRACT & DAILY)[::2])
NATIVE = [
    pytest.param(DAILY - IN_HARBOR, id="its share"),
    pytest.param(set(ATTACKS), marks=pytest.mark.extended, id="all"),
]
HARBOR = [
    pytest.param(IN_HARBOR, id="its share"),
    pytest.param(BY_CONTRACT, marks=pytest.mark.extended, id="all"),
]


@pytest.mark.slow
@pytest.mark.parametrize("wanted", NATIVE)
def test_planted_scores_are_worth_nothing(tmp_path: Path, wanted: set[str]) -> None:
    _native(tmp_path)
    agents = [f"--bench-agent=command:{ATTACKS[name].script}" for name in wanted]
    done = run(
        tmp_path, "planted.bench.yaml", "--bench-agent=oracle", *agents, "--bench-concurrency=4", timeout=1800
    )
    found = results(tmp_path)
    (honest,) = [result for result in found if result["agent"]["name"] == "oracle"]
    assert (honest["outcome"], honest["score"]) == ("passed", 1.0), done.stdout
    assert honest["agent_end"]["tampered"] == []
    _failed([result for result in found if result is not honest], wanted)


@pytest.mark.slow
@pytest.mark.parametrize("wanted", HARBOR)
def test_planted_scores_are_worth_nothing_in_a_harbor_task(tmp_path: Path, wanted: set[str]) -> None:
    _harbor(tmp_path)
    agents = [f"--bench-agent=command:{ATTACKS[name].script}" for name in wanted]
    done = run(tmp_path, "tasks", "--bench-agent=oracle", *agents, "--bench-concurrency=4", timeout=1800)
    found = results(tmp_path)
    (honest,) = [result for result in found if result["agent"]["name"] == "oracle"]
    assert (honest["outcome"], honest["score"]) == ("passed", 1.0), done.stdout
    _failed([result for result in found if result is not honest], wanted)


STARTED_AGAIN = f"""\
FROM {IMAGE}
RUN printf '#!/bin/sh\\n(setsid sleep 7777 &)\\nexec "$@"\\n' > /entry && chmod 755 /entry && mkdir -p /app/bin
ENV PATH=/app/bin:$PATH
ENTRYPOINT ["/entry"]
WORKDIR /app
"""
FORGED = f"printf '#!/usr/bin/honest\\n{RIGHT}\\nexec \"$@\"\\n' > NAME; chmod 755 NAME"
AGAIN = {
    "/entry": (FORGED.replace("NAME", "/entry"), ["/entry"]),
    "first": ("rm -f /bench/first; " + FORGED.replace("NAME", "/bench/first"), []),
    "path": (FORGED.replace("NAME", "/app/bin/grep"), ["/app/bin/grep"]),
    "files": (FORGED.replace("NAME", "/usr/local/bin/grep"), ["/usr/local/bin/grep"]),
}


@pytest.mark.extended
def test_what_is_started_again_and_found_first_is_the_images(tmp_path: Path) -> None:
    _write(tmp_path / "env" / "Dockerfile", STARTED_AGAIN)
    _write(tmp_path / "tools" / "mine", "#!/bin/sh\n")
    _write(
        tmp_path / "again.bench.yaml",
        f"""\
benchmark: again
scenarios:
  - id: write-right
    dockerfile: env/Dockerfile
    keep_entrypoint: true
    network: none
    files: {{/usr/local/bin: tools}}
    problem_statement: Write right to out.txt.
    scorers: [{{name: there, type: command, command: "sleep 0.3; grep -qx right {OUT} && grep -qx right {OUT}"}}]
""",
    )
    scripts = {f"cp /bin/dash /usr/bin/honest; {script}": named for script, named in AGAIN.values()}
    run(tmp_path, "again.bench.yaml", *(f"--bench-agent=command:{script}" for script in scripts))
    found = {
        one["agent"]["model"]: (one["outcome"], one["score"], one["agent_end"]["tampered"])
        for one in results(tmp_path)
    }
    assert found == {script: ("failed", 0.0, named) for script, named in scripts.items()}


# What people are asked to do: a program, a library the loader has to know, a package with a command.
INSTALL = f"""\
cp /bin/true /usr/sbin/served; mkdir -p /etc/served; echo on > /etc/served/conf
sed 's/libz\\.so\\.1/libq.so.1/g' /lib/x86_64-linux-gnu/libz.so.1 > /usr/local/lib/libq.so.1; ldconfig
mkdir -p {LOCAL}/mine {LOCAL}/mine-1.dist-info; echo "VALUE = 1" > {LOCAL}/mine/__init__.py
printf '[console_scripts]\\nmine = mine:run\\n' > {LOCAL}/mine-1.dist-info/entry_points.txt
printf 'Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\n' > {LOCAL}/mine-1.dist-info/METADATA
echo right > {OUT}
"""
UPGRADE = f"echo 'MINE = 1' >> {APT}/attr/__init__.py\n"
INSTALLED = (
    "served && grep -q on /etc/served/conf && ldconfig -p | grep -q libq && grep -q right /app/out.txt && "
    'python3 -c \'import mine, importlib.metadata as m; assert m.version("mine") == "1"\''
)
UPGRADED = "python3 -c 'import attr; assert attr.MINE'"


@pytest.mark.extended
def test_installing_software_is_no_tampering(tmp_path: Path) -> None:
    _write(tmp_path / "env" / "Dockerfile", DOCKERFILE)
    scenario = """\
  - id: {name}
    dockerfile: env/Dockerfile
    network: none
    problem_statement: Install it.
    keep_changes: {keep}
    scorers:
    - {{name: installed, type: command, command: {installed}}}
    - {{name: upgraded, type: command, command: {upgraded}}}
"""
    words = {"installed": json.dumps(INSTALLED), "upgraded": json.dumps(UPGRADED)}
    _write(
        tmp_path / "installing.bench.yaml",
        "benchmark: installing\nscenarios:\n"
        + scenario.format(name="undone", keep="[]", **words)
        + scenario.format(name="kept", keep=f'["{APT}/attr*"]', **words),
    )
    run(tmp_path, "installing.bench.yaml", f"--bench-agent=command:{INSTALL}{UPGRADE}", timeout=900)
    found = {
        result["scenario"]: (
            [scorer["score"] for scorer in result["scorers"]],
            [path for path in result["agent_end"]["tampered"] if not path.endswith(".pyc")],
        )
        for result in results(tmp_path)
    }
    assert found == {"undone": ([1.0, 0.0], [f"{APT}/attr/__init__.py"]), "kept": ([1.0, 1.0], [])}


def test_programs_changed_under_the_first_scorer_are_the_images_for_the_second(tmp_path: Path) -> None:
    _write(
        tmp_path / "two.bench.yaml",
        f"""\
benchmark: two
scenarios:
  - id: write-right
    image: {IMAGE}
    workdir: /app
    network: none
    problem_statement: Write right to out.txt, and a program made.
    scorers:
    - {{name: runs-it, type: command, command: sh made}}
    - {{name: reads-it, type: command, command: "grep -qx right {OUT}"}}
""",
    )
    plant = "printf '#!/bin/sh\\nexit 0\\n' > /usr/bin/grep"
    run(tmp_path, "two.bench.yaml", f"--bench-agent=command:cat > made <<'END'\n{plant}\nEND")
    (result,) = results(tmp_path)
    assert [scorer["score"] for scorer in result["scorers"]] == [1.0, 0.0]
    assert result["notes"] == ["put back after scorer runs-it: /usr/bin/grep"]


@pytest.mark.extended
def test_a_harbor_task_is_graded_with_what_its_solution_installed(tmp_path: Path) -> None:
    _harbor(tmp_path)
    task = tmp_path / "tasks" / "write-right"
    _write(task / "solution" / "solve.sh", f"#!/bin/bash\n{INSTALL}{UPGRADE}")
    _write(
        task / "tests" / "test.sh",
        f"#!/bin/bash\n{INSTALLED} && {UPGRADED} && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
    )
    run(tmp_path, "tasks", "--bench-agent=oracle", f"--bench-agent=command:{INSTALL}{UPGRADE}", timeout=900)
    found = [
        (result["outcome"], result["score"], result["agent_end"]["tampered"]) for result in results(tmp_path)
    ]
    assert found == [("passed", 1.0, [])] * 2
