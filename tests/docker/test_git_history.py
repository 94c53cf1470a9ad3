"""Repositories in images end at their base: an agent that looks for the fix in them finds nothing, anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import IMAGE, results, run

from .built import GIT_AND_PYTHON, build

pytestmark = [pytest.mark.docker, pytest.mark.when_changed("sandbox")]

TAG = "benchjobs/git-history-test:1"
# The fix is in branches, tags, notes, a stash, logs, packs, a remote, an alternate, a worktree and clones.
DOCKERFILE = rf"""
{GIT_AND_PYTHON}RUN git config --system user.name t && git config --system user.email t@localhost && mkdir /app && cd /app \
 && git init -q && git checkout -q -b main && echo 1 > answer && git add -A && git commit -qm one && git tag -a old -m old \
 && git clone -q --mirror . /srv/mirror.git && git commit -q --allow-empty -m base && git checkout -q -b later \
 && echo the-fix > answer && git commit -qam fix && git tag fix && git tag -a fixed -m x && git notes add -m the-fix \
 && echo the-fix > more && git add more && git stash -q && git update-ref refs/pull/1 later && git push -q /srv/mirror.git later \
 && git worktree add -q --detach /srv/tree later && git checkout -q main && git remote add origin /srv/mirror.git \
 && git fetch -q && git branch -q -u origin/later && git gc -q && git fetch -q origin later \
 && git clone -q --shared -b later . /srv/clone && git clone -q --reference /srv/mirror.git -b later . /srv/other \
 && echo /srv/mirror.git/objects > .git/objects/info/alternates && git repack -adlq && echo staged > staged && git add staged \
 && git init -q /srv/apart && cd /srv/apart && git commit -q --allow-empty -m own && useradd me && chown -R me /app /srv
USER me
WORKDIR /app
"""
MANIFEST = f"""
benchmark: history
defaults:
  image: {TAG}
  problem_statement: Fix it.
  git_history: base
  reference: {{patch: gold.patch}}
  scorers: [{{type: command, command: grep -qx the-fix answer}}]
scenarios:
  - id: whole
    git_history: full
  - id: ended
  - id: without-git
    image: {IMAGE}
    workdir: /app
"""
ATTACKS = (
    "git checkout -q later -- answer || git checkout -q fix -- answer || git checkout -q origin/later -- answer",
    "git fetch -q origin later && git checkout -q FETCH_HEAD -- answer",
    "git stash apply; git checkout -q 'HEAD@{1}' -- answer; git checkout -q 'main@{u}' -- answer",
    (
        "for d in /app /srv/*; do cd $d; grep -rlq the-fix . && echo the-fix > /app/answer; "
        "for o in $(git cat-file --batch-all-objects --batch-check='%(objectname)'); do "
        "git cat-file -p $o | grep -aq the-fix && echo the-fix > /app/answer; done; done"
    ),
)
# What an honest agent may lean on is as it was.
HONEST = (
    'test "$(git log --format=%s)" = "$(printf "base\\none")" && test "$(git describe)" = "old-1-g$(git rev-parse --short HEAD)" '
    '&& test "$(git status --short)" = "A  staged" && test "$(git -C /srv/apart log --format=%s)" = own && git fsck --strict '
    "&& test $(git cat-file --batch-all-objects --batch-check='%(objecttype)' | grep -c commit) = 2 "
    "&& git commit -qm mine && echo the-fix > answer"
)


@pytest.fixture(scope="module", autouse=True)
def image(tmp_path_factory: pytest.TempPathFactory) -> None:
    build(tmp_path_factory.mktemp("image"), DOCKERFILE, TAG)


def test_the_fix_is_not_in_the_image_and_all_before_it_is(tmp_path: Path) -> None:
    (tmp_path / "history.bench.yaml").write_text(MANIFEST)
    (tmp_path / "gold.patch").write_text("--- a/answer\n+++ b/answer\n@@ -1 +1 @@\n-1\n+the-fix\n")
    commands = [f"{attack}; true" for attack in ATTACKS]
    agents = [f"--bench-agent=command:{command}" for command in (*commands, HONEST)]
    said = run(
        tmp_path, "--bench-agent=oracle", *agents, "--bench-concurrency=4", "history.bench.yaml"
    ).stdout
    found = results(tmp_path)
    scores: dict[str, dict[str, float | None]] = {"whole": {}, "ended": {}}
    for one in found:
        scores.setdefault(one["scenario"], {})[one["agent"]["model"] or "oracle"] = one["score"]
    assert scores["ended"] == {"oracle": 1.0, HONEST: 1.0, **dict.fromkeys(commands, 0.0)}, said
    assert {scores["whole"][command] for command in commands} == {1.0}, said
    failures = {str(one["failure"]["message"]) for one in found if one["scenario"] == "without-git"}
    assert failures == {
        f"git_history: the history in the image {IMAGE} cannot be ended: there is no git in it"
    }
