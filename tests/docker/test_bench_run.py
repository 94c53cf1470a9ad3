"""`bench-run`: a scorer has programs of the agent run where the agent worked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import IMAGE, by_agent, run

pytestmark = pytest.mark.docker

PROGRAM = r"""#!/bin/sh
cat; echo "$1 $(id -un)"; ls /tests >&2; (setsid sleep 500 &); exit 3
"""
SCRIPT = r"""
echo secret > /tmp/expected; mkdir /tmp/given; echo data > /tmp/given/file
out=$(printf in | bench-run --stdin - -- ./program world 2>/tmp/err); told="$? $out"
[ "$told" = "3 inworld nobody" ] && grep -q "cannot access '/tests'" /tmp/err || echo "told: $told"
bench-run --user root --in /tmp/given --out /tmp/given -- sh -c 'cat /tmp/given/file; echo more > /tmp/given/new; ls /tmp'
cat /tmp/given/new
bench-run --timeout 1 -- sleep 500; echo "late $?"
bench-run --fresh -- cat program | head -1
bench-run -- nosuch 2>/dev/null; echo "missing $?"
bench-run --in / 2>&1; echo "wrong $?"
bench-run -- sh -c 'for one in /proc/[0-9]*/comm; do cat $one; done' > /tmp/seen; sort /tmp/seen | uniq -c
n=0; while [ $n -lt CALLS ]; do bench-run -- /bin/true || echo failed $?; n=$((n+1)); done
echo score=1
"""
PRINTED = """\
data
given
more
late 124
#!/bin/sh
missing 127
bench-run: a command is expected after --
wrong 125
      1 bench-1
      2 program
      1 sh
score=1
"""
SEEN = "1 bash\n      1 bench-0\n      1 bench-run\n      4 program"
PLACES = {
    "grade_in: fresh": PRINTED,
    "fresh_container: {patch: true}": PRINTED,
    "grade_in: agent_container": PRINTED.replace("data\n", "data\nerr\nexpected\n").replace("1 bench-1\n      2 program", SEEN),
}  # fmt: skip
MANIFEST = f"""\
benchmark: b
scenarios:
  - id: s
    image: {IMAGE}
    workdir: /app
    network: none
    PLACE
    agent_user: nobody
    setup: chown nobody /app
    problem_statement: Write a program.
    scorers: [{{name: runs, type: bash, script: SCRIPT}}, {{name: asks, type: asks}}]
"""
CONFTEST = """
def asks(context):
    status, printed = context.run_agent(["./program", "you"], stdin=b"in")
    assert (status, printed.splitlines()[0]) == (3, b"inyou nobody"), printed
    assert context.run_agent(["sleep", "500"], timeout=1) == (None, b"")
    return float(context.run_agent(["sh", "-c", "exec test -w ."])[0] == 0)

def pytest_benchjobs_scorers():
    return {"asks": asks}
"""


@pytest.mark.parametrize("calls", [5, pytest.param(1000, marks=pytest.mark.extended)])
@pytest.mark.parametrize("place", PLACES)
def test_programs_of_the_agent_run_where_it_worked_and_leave_nothing(
    tmp_path: Path, calls: int, place: str
) -> None:
    text = MANIFEST.replace("SCRIPT", json.dumps(SCRIPT.replace("CALLS", str(calls)))).replace("PLACE", place)
    (tmp_path / "b.bench.yaml").write_text(text)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    work = f"cat > program <<'END'\n{PROGRAM}END\nchmod +x program"
    done = run(tmp_path, "b.bench.yaml", f"--bench-agent=command:{work}")
    [result] = by_agent(tmp_path)["command"]
    assert result["outcome"] == "passed", done.stdout
    assert result["scorers"][0]["output"] == PLACES[place]
