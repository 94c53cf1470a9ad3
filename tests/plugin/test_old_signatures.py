"""Signatures of results that earlier versions made: while nothing new is said, the same trial has the same one."""

from __future__ import annotations

from .conftest import Bench

MANIFEST = """
benchmark: old
version: "3"
defaults: {image: "debian:bookworm-slim", workdir: /app, memory: 256M, cpus: 1}
scenarios:
  - id: plain
    problem_statement: Write 1.
    scorers: [{type: command, command: grep -q 1 out.txt}]
  - id: grid
    variants: [{id: one}, {id: two, threshold: 0.5}]
    tags: [easy]
    problem_statement: Write 1.
    reference: echo 1 > out.txt
    scorers:
      - {name: a, type: command, weight: 2, command: grep -q 1 out.txt, network: none}
      - {name: b, type: bash, script: echo score=0.5}
  - id: closed
    problem_statement: Do nothing.
    network: public
    agent_network: allowlist
    agent_allowed_hosts: [models.example]
    env: {COLOUR: red}
    files: {given.txt: given.txt}
    setup: ["true"]
    pids: 100
    storage: 1G
    artifacts: [out.txt]
    scorers: [{type: command, command: "true"}]
  - id: in-place
    problem_statement: Do nothing.
    grade_in: agent_container
    scorers: [{type: command, command: "true"}]
  - id: built
    dockerfile: Dockerfile
    build_args: {ONE: "1"}
    problem_statement: Do nothing.
    scorers: [{type: command, command: "true"}]
  - id: carried
    problem_statement: Do nothing.
    carry: [/var/lib/app]
    scorers: [{type: command, command: "true"}]
"""
OF_OLD = {
    "built": ("bf15d9b4d91eec53618407a0a510ce19", "ee8483a479bb87af4e3dcad2749bab44"),
    "carried": ("6b022841eb669aaa3f20078ba621b22f", "870b8bfeeb4a970e1491f03a70842c35"),
    "closed": ("cdfcf51abaeb0c4723ffbcaec48758b9", "9cbfb45c1dc5d27acffa05e07550470a"),
    "grid.one": ("24413bcdee3c40b23b98eec99054c82f", "0de3b88923d8b9e59e4518e566b4e037"),
    "grid.two": ("ba729e4177f930269fb0961665045cc9", "ac277bfc1170419c049033af4a49393a"),
    "in-place": ("c1459a0863301995d704aab0b8e7f9ac", "0dd4260af72e4cea73484fa28bca8ec3"),
    "plain": ("d27c20b8569d9eacb012a44201111d9c", "33667dbd0f5d6b2c2bf0d97e4ad0ea9e"),
}
"""Signatures of `nop`, and of an agent that is a command, as the code before engines elsewhere made them."""


def test_what_an_earlier_version_signed_is_signed_the_same(bench: Bench) -> None:
    bench.write("old.bench.yaml", MANIFEST)
    bench.write("given.txt", "given\n")
    bench.write("Dockerfile", "FROM debian:bookworm-slim\nRUN true\n")
    bench.run("old.bench.yaml", "--bench-agent=nop", "--bench-agent=command:echo 1 > out.txt")
    signed: dict[str, dict[str, str]] = {}
    for one in bench.results():
        scenario, agent = one["node_id"].removeprefix("old.bench.yaml::").split("[")
        signed.setdefault(scenario, {})[agent[:3]] = one["signature"]["value"]
    assert {scenario: (of["nop"], of["com"]) for scenario, of in signed.items()} == OF_OLD
