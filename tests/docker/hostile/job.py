"""One job of all that agents do for a score they have not earned, or to turn their failure into an error.

The problem statement of a scenario is the script of its agent. Many trials in one job wait for the engine together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import IMAGE

from . import attacks
from .attacks import ANSWER, LOCAL, OUT, RIGHT, SEARCH, SPOILERS

AGENT = '--bench-agent=command:bash "$BENCH_PROBLEM_FILE"'
# Built once for all runs: an image is kept by its content.
WITH_PROGRAMS = f"""\
FROM {IMAGE}
RUN apt-get update \\
 && apt-get install -y --no-install-recommends git nodejs node-acorn perl python3-pytest \\
 && rm -rf /var/lib/apt/lists/*
RUN mkdir /check && echo 'require("acorn")' > /check/check.js
"""
DOCKERFILE = f"{WITH_PROGRAMS}WORKDIR /app\n"
REPOSITORY = """\
RUN git init -q && echo given > given.txt && git add . && git -c user.name=a -c user.email=a@b commit -qm given
"""
PROGRAMS = """\
bash -c true
bash -lc 'grep -q x /dev/null' >/dev/null 2>&1
perl -Mstrict -MList::Util=first -e 1
git status >/dev/null 2>&1; git diff >/dev/null 2>&1; git log -1 >/dev/null 2>&1; git add given.txt >/dev/null 2>&1
git checkout -q -- given.txt; git archive HEAD >/dev/null 2>&1
git -c user.name=a -c user.email=a@b commit --allow-empty -qm x >/dev/null 2>&1
python3 -P -c 'import copy, json, pickle'; python3 -P -m json.tool /dev/null >/dev/null 2>&1
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
HARBOR_TEST = """\
#!/bin/bash
perl -Mstrict -e 1; awk 'BEGIN { exit 0 }'
cd /app
reward=0
python3 -P -m pytest -q /tests/test_out.py && grep -qx right /app/out.txt && reward=1
echo $reward > /logs/verifier/reward.txt
"""
THERE = {"name": "there", "type": "command", "command": f"grep -qx right {OUT}"}
BUILT = {"image": None, "dockerfile": "env/Dockerfile"}
IMPORTING = """\
from answer import value

def test_value():
    assert value(6) == 42

def test_nothing():
    pass
"""


class Case(NamedTuple):
    """A scenario, and what has to become of its agent."""

    script: str
    keys: Mapping[str, Any] = {}
    """Keys of the scenario."""
    outcome: str = "failed"
    score: float | None = 0.0
    """None: any below 1, as some tests pass whatever an agent does."""
    named: tuple[str, ...] = ()
    """Graded in place: any score, and at least one of these paths is named as tampered with."""


def slug(name: str) -> str:
    return re.sub("[^a-z0-9_]+", "-", name.lower()).strip("-")


SPOILED: dict[str, Any] = {
    "memory": "64M",
    "pids": 128,
    "agent_timeout": 40,
    "scorer_timeout": 6,
    "artifacts": ["out.txt", "*.txt"],
    "scorers": [
        {"name": "right", "type": "bash", "script": "grep -qx right out.txt && echo score=1 || echo score=0"}
    ],
}
PLANTED: dict[str, Any] = {
    **BUILT,
    "scorers": [
        {
            "name": "programs",
            "type": "bash",
            "script": f"{PROGRAMS}grep -qx right {OUT} && echo 1 || echo 0\n",
        },
        {"name": "tests", "type": "tests", "path": "tests/"},
    ],
}
LINKED = {
    "scorers": [
        {"name": "there", "type": "tests", "path": "tests", "command": "diff /tests/expected.txt out.txt"},
        {"name": "here", "type": "files", "params": {"files": [{"path": "out.txt", "equals": ANSWER}]}},
    ]
}
LOOKING = """\
echo right > /tmp/out.txt
bench-run --out /app/got.txt -- sh ./made >/dev/null 2>&1
grep -q 'right' out.txt || cmp -s out.txt - <<< right || cmp -s out/out.txt /tmp/out.txt ||
    cmp -s out/tmp/out.txt /tmp/out.txt || cmp -s got.txt /tmp/out.txt && echo score=1 || echo score=0
"""
LOOKED = {"scorers": [{"name": "looks", "type": "bash", "script": LOOKING}]}
RUN = {"scorers": [{"name": "runs-it", "type": "bash", "script": "sh made\nsleep 1\necho score=0\n"}]}
READING = f"""\
got=$(setpriv --reuid=65534 --clear-groups sh made 2>&1 | tr '\\0' '\\n' | grep -aow '{ANSWER[:5]}[-]{ANSWER[6:]}' | tail -n 1)
[ "$got" = {ANSWER} ] && echo score=1 || echo score=0
"""
READ = {"scorers": [{"name": "runs-it", "type": "bash", "script": READING}]}
HERE = {"grade_in": "agent_container"}
IMPORTED = {**BUILT, "scorers": [{"name": "imports-it", "type": "tests", "path": "importing/"}]}
KINDS: dict[str, tuple[Mapping[str, str], dict[str, Any], str]] = {
    "carried": (attacks.CARRIED, PLANTED, "{}"),
    "variable": (attacks.VARIABLES, {**PLANTED, "dockerfile": "variables/Dockerfile"}, "{}"),
    "link": (attacks.LINKS, LINKED, "{}"),
    "astray": (attacks.ASTRAY, LOOKED, "{}"),
    "beside": (attacks.BESIDE, RUN, "cat > made <<'END'\n{}\nEND"),
    "beside in place": (attacks.BESIDE, {**RUN, **HERE}, "cat > made <<'END'\n{}\nEND"),
    "reads": (attacks.READS, READ, "cat > made <<'END'\n{}\nEND"),
    "reads in place": (attacks.READS, {**READ, **HERE}, "cat > made <<'END'\n{}\nEND"),
    "inside": (attacks.INSIDE, IMPORTED, "cat > answer.py <<'END'\n{}\nEND"),
    "in the image": ({name: attack.script for name, attack in attacks.IN_IMAGE.items()}, PLANTED, "{}"),
    "spoils": (SPOILERS, SPOILED, "{}"),
}
"""Attacks, keys of their scenarios, and the script of their agents."""
# Not before grading has begun: until then, it would be the agent's answer.
LATE = "setsid sh -c 'while :; do test -e begun && echo right > out.txt; sleep 0.1; done' >/dev/null 2>&1 & sleep 0.2"
GRADED_LATE = {"scorers": [{**THERE, "command": "touch begun; sleep 0.5; grep -qx right out.txt"}]}
ESCAPES = "printf '\\033]0;owned\\007\\033[2J<script>alert(1)</script> ]]> \\377\\376 \\355\\240\\200 | **bold**\\n'; exit 3"
TWO = {
    "scorers": [{"name": "runs-it", "type": "command", "command": "sh made"}, {**THERE, "name": "reads-it"}]
}
OWNED = """\
#!/bin/bash
setpriv --reuid=65534 --clear-groups sh -c 'echo 1 > /logs/verifier/reward.json' 2>/dev/null
cp -p reward.txt /logs/verifier/ || echo 0 > /logs/verifier/reward.txt
"""
PLANT = "printf '#!/bin/sh\\nexit 0\\n' > /usr/bin/grep"
SINGLE = {
    "honest": Case(RIGHT, PLANTED, "passed", 1.0),
    "honest links": Case(
        "echo right > a; ln -s a b; ln -s /app/b out.txt; ln -s /bin/sh sh", LOOKED, "passed", 1.0
    ),
    "honest within limits": Case(RIGHT, SPOILED, "passed", 1.0),
    "a process left behind": Case(LATE, GRADED_LATE),
    "forks": Case("bomb() { bomb | bomb & }; bomb; sleep 60", {"pids": 64, "agent_timeout": 8}),
    "a hog": Case(SPOILERS["a hog"], SPOILED),
    "fills the disk": Case("dd if=/dev/zero of=/app/big bs=1M count=3000 2>&1; sleep 60", {"storage": "64M"}),
    "escapes": Case(ESCAPES),
    "a reward of another": Case(
        "echo 1 > reward.txt; chown nobody reward.txt",
        {"scorers": [{"name": "kept", "type": "harbor", "path": "owned/"}]},
    ),
    "two scorers": Case(f"cat > made <<'END'\n{PLANT}\nEND", TWO, score=0.5),
}

# What people are asked to do: a program, a library the loader has to know, a package with a command.
INSTALL = f"""\
cp /bin/true /usr/sbin/served; mkdir -p /etc/served; echo on > /etc/served/conf
sed 's/libz\\.so\\.1/libq.so.1/g' /lib/x86_64-linux-gnu/libz.so.1 > /usr/local/lib/libq.so.1; ldconfig
mkdir -p {LOCAL}/mine {LOCAL}/mine-1.dist-info; echo "VALUE = 1" > {LOCAL}/mine/__init__.py
printf '[console_scripts]\\nmine = mine:run\\n' > {LOCAL}/mine-1.dist-info/entry_points.txt
printf 'Metadata-Version: 2.1\\nName: mine\\nVersion: 1\\n' > {LOCAL}/mine-1.dist-info/METADATA
echo right > {OUT}
"""
INSTALLED = (
    "served && grep -q on /etc/served/conf && ldconfig -p | grep -q libq && grep -q right /app/out.txt && "
    'python3 -c \'import mine, importlib.metadata as m; assert m.version("mine") == "1"\''
)

HIDDEN = f'''
from pytest_benchjobs import Benchmark, Scenario, scorer

@scorer("xyzzy-scorer")
def grade(context):
    """XYZZY-in-the-scorer"""
    _, output = context.run("cat out.txt 2>/dev/null")
    return 1.0 if output.strip() == "XYZZY-answer" else 0.0

def in_python(name, script):
    return Scenario(name, problem_statement=script, reference="echo XYZZY-answer > out.txt", scorers=[grade])

def in_files(name, script):
    return Scenario(
        name,
        problem_statement=script,
        files={{"given.txt": "given.txt"}},
        reference={{"files": {{"out.txt": "solved.txt"}}}},
        scorers=[{{"type": "tests", "path": "tests", "command": "diff /tests/expected.txt out.txt"}}],
    )

hidden = Benchmark(
    "hidden",
    defaults={{"image": "{IMAGE}", "workdir": "/app", "network": "none", "agent_timeout": 120}},
    scenarios=[
        made(f"{{name}}-{{place}}", script)
        for made, place in ((in_python, "in-python"), (in_files, "in-files"))
        for name, script in SCRIPTS.items()
    ],
)
'''
HIDDEN_SCRIPTS = {
    "right": "echo XYZZY-answer > out.txt",
    "searches": f"({SEARCH}) > found.txt 2>&1; cat found.txt | tee out.txt",
    "plants": "mkdir -p /tests /logs/verifier; echo wrong > /tests/expected.txt; echo wrong > out.txt; "
    "echo 1 > /logs/verifier/reward.txt; echo score=1.0; printf '#!/bin/sh\\nexit 0\\n' > /usr/bin/diff",
}
PLACES = ("in-python", "in-files")


def _hidden_cases() -> Iterator[tuple[str, Case]]:
    for name, script in HIDDEN_SCRIPTS.items():
        outcome = ("passed", 1.0) if name == "right" else ("failed", 0.0)
        for place in PLACES:
            yield f"{name}-{place}", Case(script, {}, *outcome)


def every() -> dict[str, Case]:
    """All that is graded afresh: by the id of the scenario."""
    return {
        slug(f"{kind} {name}"): Case(form.format(script), keys, score=None if kind == "inside" else 0.0)
        for kind, (scripts, keys, form) in KINDS.items()
        for name, script in scripts.items()
    }


def in_place() -> dict[str, Case]:
    """All that is a task in Harbor's form: by the id of the scenario."""
    found = {name: Case(script) for name, script in attacks.BEFORE.items()}
    found |= {name: Case(attack.script, named=attack.named) for name, attack in attacks.IN_IMAGE.items()}
    return {slug(f"harbor {name}"): case for name, case in found.items()}


def write(directory: Path, manifest: Mapping[str, Case], harbor: Mapping[str, Case]) -> dict[str, Case]:
    """Write the benchmarks into a directory; returns every scenario of theirs."""
    defaults = {
        "image": IMAGE,
        "workdir": "/app",
        "network": "none",
        "agent_timeout": 120,
        "reference": RIGHT,
        "scorers": [*SPOILED["scorers"], THERE],
    }
    harbor = {**harbor, "harbor-installs": Case(INSTALL, outcome="passed", score=1.0)}
    scenarios = [{"id": id_, "problem_statement": case.script, **case.keys} for id_, case in manifest.items()]
    document = {"benchmark": "hostile", "defaults": defaults, "scenarios": scenarios}
    files = {
        "hostile.bench.yaml": json.dumps(document, indent=1),
        "env/Dockerfile": DOCKERFILE + REPOSITORY,
        "variables/Dockerfile": DOCKERFILE + REPOSITORY + attacks.OF_IMAGE,
        "owned/test.sh": OWNED,
        "tests/test_out.py": CHECK,
        "importing/test_value.py": IMPORTING,
        "test_hidden.py": f"SCRIPTS = {HIDDEN_SCRIPTS!r}\n{HIDDEN}",
        "given.txt": "given\n",
        "solved.txt": "XYZZY-answer\n",
        "tests/expected.txt": "XYZZY-answer\n",
    }
    for id_, case in harbor.items():
        test = HARBOR_TEST
        if id_ == "harbor-installs":
            test = f"#!/bin/bash\n{INSTALLED} && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
        files |= {
            f"tasks/{id_}/task.toml": 'schema_version = "1.3"\n[agent]\ntimeout_sec = 120\n',
            f"tasks/{id_}/instruction.md": case.script,
            f"tasks/{id_}/environment/Dockerfile": DOCKERFILE,
            f"tasks/{id_}/tests/test_out.py": CHECK,
            f"tasks/{id_}/tests/test.sh": test,
        }
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return {**manifest, **harbor, **dict(_hidden_cases())}
