"""A judge of work in a real container: neither the agent nor a scorer there sees its key."""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.plugin.test_judge import KEY, _Judge
from tests.support import IMAGE, results, run

pytestmark = pytest.mark.docker

MANIFEST = f"""
benchmark: judged
defaults: {{image: "{IMAGE}", workdir: /app, network: none}}
scenarios:
  - id: letter
    problem_statement: Write a letter.
    scorers:
      - {{name: polite, type: judge, params: {{model: openai/m, criteria: It is polite., files: [letter.txt]}}}}
      - name: no-key
        type: command
        command: "! grep -aq {KEY} env.txt && ! env | grep -q {KEY} && ! grep -rasq {KEY} /proc/[0-9]*/environ /tmp /run /logs"
"""
AGENT = "command:echo please > letter.txt; env > env.txt; cat /proc/*/environ >> env.txt 2>/dev/null; true"


def test_the_key_of_a_judge_is_nowhere_in_the_container(tmp_path: Path) -> None:
    (tmp_path / "judged.bench.yaml").write_text(MANIFEST)
    _Judge.keys = []
    with ThreadingHTTPServer(("127.0.0.1", 0), _Judge) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        environment = {"JUDGE_OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url}
        done = run(tmp_path, "judged.bench.yaml", "--bench-agent", AGENT, **environment)
        server.shutdown()
    (result,) = results(tmp_path)
    assert [scorer["score"] for scorer in result["scorers"]] == [1.0, 1.0], done.stdout
    assert _Judge.keys == [f"Bearer {KEY}"]
    written = [path for path in (tmp_path / "reports").rglob("*") if path.is_file()]
    assert not [path for path in written if KEY.encode() in path.read_bytes()]
