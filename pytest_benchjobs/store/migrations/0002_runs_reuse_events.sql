-- What outlives a process: runs, what was taken over from where, what decides a result, and the life of a job.

ALTER TABLE jobs ADD COLUMN reused INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN cost_usd REAL;
ALTER TABLE jobs ADD COLUMN parent TEXT;
ALTER TABLE jobs ADD COLUMN bundled INTEGER NOT NULL DEFAULT 1;  -- 0: merged from a history, without its files

CREATE TABLE runs (                 -- one benchmark and one agent in one job; the id is `job.position`
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,      -- from 1, in the order they began
    job_name TEXT,
    benchmark TEXT NOT NULL,
    benchmark_version TEXT,
    agent TEXT NOT NULL,            -- label
    provider TEXT,
    model TEXT,
    status TEXT NOT NULL,           -- of the job
    trials INTEGER NOT NULL DEFAULT 0,
    passed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    error INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    reused INTEGER NOT NULL DEFAULT 0,
    scored INTEGER NOT NULL DEFAULT 0,
    mean_score REAL,                -- over those with a score
    cost_usd REAL,                  -- here and below: of what was spent in this job
    input_tokens INTEGER,
    output_tokens INTEGER,
    cached_tokens INTEGER,
    seconds REAL NOT NULL DEFAULT 0,
    started_at TEXT,
    finished_at TEXT,
    PRIMARY KEY (job, position),
    UNIQUE (job, benchmark, agent)
) WITHOUT ROWID;

ALTER TABLE trials ADD COLUMN run INTEGER NOT NULL DEFAULT 0;    -- position of its run
ALTER TABLE trials ADD COLUMN provider TEXT;
ALTER TABLE trials ADD COLUMN signature TEXT;                    -- of what decides its result
ALTER TABLE trials ADD COLUMN reused TEXT;                       -- job it was taken over from: it did not run here
ALTER TABLE trials ADD COLUMN rescored TEXT;                     -- job whose trial was graded anew: no agent ran here
ALTER TABLE trials ADD COLUMN kept TEXT;                         -- image with the file system the agent left
ALTER TABLE trials ADD COLUMN cached_tokens INTEGER;
ALTER TABLE trials ADD COLUMN reasoning_tokens INTEGER;

CREATE TABLE scenarios (
    benchmark TEXT NOT NULL,
    scenario TEXT NOT NULL,
    first_seen TEXT NOT NULL,
    last_seen TEXT NOT NULL,
    content TEXT,                   -- the part of the latest signature that is the scenario's
    PRIMARY KEY (benchmark, scenario)
) WITHOUT ROWID;

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,             -- created, resumed, cancelled, recovered, imported, rescored
    message TEXT NOT NULL
);

CREATE TABLE baselines (            -- the latest row of a name counts, the others tell its past
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    jobs TEXT NOT NULL,             -- ids as a JSON list, the newest first; an empty one deletes the baseline
    branch TEXT,
    "commit" TEXT,
    set_at TEXT NOT NULL,
    set_by TEXT,
    reason TEXT
);

CREATE TABLE gates (
    id INTEGER PRIMARY KEY,
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    at TEXT NOT NULL,
    expression TEXT NOT NULL,       -- such as mean:5pp
    scope TEXT,                     -- benchmark, agent or tag it is limited to
    baseline TEXT,                  -- as it was asked for
    policy TEXT NOT NULL,
    verdict TEXT NOT NULL,          -- ok, regressed, inconclusive, invalid
    change REAL,
    p_value REAL,
    detectable REAL,                -- the smallest drop it could have seen
    report TEXT NOT NULL            -- JSON
);

CREATE TABLE comparisons (
    id TEXT PRIMARY KEY,
    at TEXT NOT NULL,
    a TEXT NOT NULL,                -- as it was asked for
    b TEXT NOT NULL,
    report TEXT NOT NULL            -- JSON
);

INSERT INTO runs (job, position, job_name, benchmark, benchmark_version, agent, model, status)
SELECT trials.job, row_number() OVER (PARTITION BY trials.job ORDER BY min(started_at)), jobs.name, trials.benchmark,
    max(trials.benchmark_version), trials.agent, max(trials.model), jobs.status
FROM trials JOIN jobs ON jobs.id = trials.job
GROUP BY trials.job, trials.benchmark, trials.agent;

UPDATE trials SET run = (
    SELECT position FROM runs
    WHERE runs.job = trials.job AND runs.benchmark = trials.benchmark AND runs.agent = trials.agent
);

CREATE INDEX trials_by_run ON trials (job, run);

UPDATE runs SET (trials, passed, failed, error, cancelled, skipped, scored, mean_score, cost_usd,
    input_tokens, output_tokens, seconds, started_at, finished_at) = (
    SELECT count(*), sum(outcome = 'passed'), sum(outcome = 'failed'), sum(outcome = 'error'),
        sum(outcome = 'cancelled'), sum(outcome = 'skipped'), count(score), avg(score), sum(cost_usd),
        sum(input_tokens), sum(output_tokens), sum(seconds), min(started_at), max(finished_at)
    FROM trials WHERE trials.job = runs.job AND trials.run = runs.position
);

UPDATE runs SET finished_at = NULL WHERE status IN ('initializing', 'queued', 'running');

UPDATE jobs SET cost_usd = (SELECT sum(runs.cost_usd) FROM runs WHERE runs.job = jobs.id);

INSERT INTO scenarios (benchmark, scenario, first_seen, last_seen)
SELECT benchmark, scenario, min(started_at), max(finished_at) FROM trials GROUP BY benchmark, scenario;

DROP INDEX jobs_by_time;
CREATE INDEX jobs_by_time ON jobs (created_at, id);
CREATE INDEX jobs_by_status ON jobs (status, created_at, id);
CREATE INDEX jobs_by_name ON jobs (name, created_at, id);

-- Sorting by any column of a list of runs. With each goes the key: (job, position).
CREATE INDEX runs_by_job_name ON runs (job_name);
CREATE INDEX runs_by_benchmark ON runs (benchmark);
CREATE INDEX runs_of_benchmark ON runs (benchmark, agent);
CREATE INDEX runs_by_benchmark_version ON runs (benchmark_version);
CREATE INDEX runs_by_agent ON runs (agent);
CREATE INDEX runs_by_provider ON runs (provider);
CREATE INDEX runs_by_model ON runs (model);
CREATE INDEX runs_by_status ON runs (status);
CREATE INDEX runs_of_status ON runs (status, agent);
CREATE INDEX runs_by_trials ON runs (trials);
CREATE INDEX runs_by_passed ON runs (passed);
CREATE INDEX runs_by_failed ON runs (failed);
CREATE INDEX runs_by_error ON runs (error);
CREATE INDEX runs_by_cancelled ON runs (cancelled);
CREATE INDEX runs_by_skipped ON runs (skipped);
CREATE INDEX runs_by_reused ON runs (reused);
CREATE INDEX runs_by_mean_score ON runs (mean_score);
CREATE INDEX runs_by_cost_usd ON runs (cost_usd);
CREATE INDEX runs_by_input_tokens ON runs (input_tokens);
CREATE INDEX runs_by_output_tokens ON runs (output_tokens);
CREATE INDEX runs_by_cached_tokens ON runs (cached_tokens);
CREATE INDEX runs_by_seconds ON runs (seconds);
CREATE INDEX runs_by_started_at ON runs (started_at);
CREATE INDEX runs_by_finished_at ON runs (finished_at);

-- What was taken over is no sample, and never the latest result.
DROP INDEX trials_by_scenario;
CREATE INDEX trials_by_scenario ON trials (benchmark, scenario, agent, attempt, finished_at) WHERE reused IS NULL;
CREATE INDEX trials_by_signature ON trials (signature, attempt, finished_at)
    WHERE reused IS NULL AND signature IS NOT NULL;

CREATE INDEX events_by_job ON events (job);
CREATE INDEX gates_by_job ON gates (job);
CREATE INDEX baselines_by_name ON baselines (name);
