-- Listing jobs and runs by everything people look for: calls of models, branch and commit, tags.

ALTER TABLE trials ADD COLUMN calls INTEGER;                     -- of a model
ALTER TABLE runs ADD COLUMN calls INTEGER;
ALTER TABLE runs ADD COLUMN tags TEXT;                           -- of its scenarios, a JSON list
ALTER TABLE runs ADD COLUMN branch TEXT;
ALTER TABLE runs ADD COLUMN "commit" TEXT;
ALTER TABLE jobs ADD COLUMN branch TEXT;
ALTER TABLE jobs ADD COLUMN "commit" TEXT;

UPDATE jobs SET branch = json_extract(record, '$.reproducibility.git.branch'),
    "commit" = json_extract(record, '$.reproducibility.git.commit')
WHERE json_valid(record);

UPDATE runs SET (branch, "commit") = (SELECT branch, "commit" FROM jobs WHERE jobs.id = runs.job);

UPDATE runs SET tags = (
    SELECT json_group_array(DISTINCT each.value) FROM trials, json_each(CASE WHEN json_valid(trials.tags) THEN trials.tags END) AS each
    WHERE trials.job = runs.job AND trials.run = runs.position
);

CREATE INDEX runs_by_calls ON runs (calls);
CREATE INDEX runs_by_total_tokens ON runs (input_tokens + output_tokens);
CREATE INDEX runs_by_branch ON runs (branch);
CREATE INDEX runs_by_commit ON runs ("commit");

-- The latest score of each benchmark and agent is looked up in the index alone.
DROP INDEX runs_of_benchmark;
CREATE INDEX runs_of_benchmark ON runs (benchmark, agent, started_at, mean_score);

-- Any order of jobs is found in this index alone: the table has their whole records in between.
CREATE INDEX jobs_listed ON jobs (
    id, name, status, created_at, finished_at, planned, trials, passed, failed, error, cancelled, skipped, reused,
    mean_score, cost_usd, parent, selection, branch, "commit"
);
