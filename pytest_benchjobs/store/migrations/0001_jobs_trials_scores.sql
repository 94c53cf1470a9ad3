CREATE TABLE jobs (
    id TEXT PRIMARY KEY,
    name TEXT,
    status TEXT NOT NULL,
    created_at TEXT NOT NULL,
    finished_at TEXT,
    planned INTEGER,
    trials INTEGER NOT NULL,
    passed INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    error INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    mean_score REAL,
    record TEXT NOT NULL            -- job.json
);

CREATE INDEX jobs_by_time ON jobs (created_at);

CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    job TEXT NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    node_id TEXT NOT NULL,
    benchmark TEXT NOT NULL,
    benchmark_version TEXT,
    scenario TEXT NOT NULL,
    agent TEXT NOT NULL,            -- label
    model TEXT,
    attempt INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    class TEXT,                     -- why it is not `passed`
    message TEXT,
    score REAL,                     -- NULL: there is none, which is not 0
    threshold REAL NOT NULL,
    started_at TEXT NOT NULL,
    finished_at TEXT NOT NULL,
    seconds REAL NOT NULL,
    input_tokens INTEGER,
    output_tokens INTEGER,
    cost_usd REAL,
    path TEXT NOT NULL,             -- relative to the job's directory
    UNIQUE (job, node_id)
);

CREATE INDEX trials_by_scenario ON trials (benchmark, scenario, agent, started_at);

CREATE TABLE scores (
    trial INTEGER NOT NULL REFERENCES trials (id) ON DELETE CASCADE,
    position INTEGER NOT NULL,
    scorer TEXT NOT NULL,
    type TEXT NOT NULL,
    weight REAL NOT NULL,
    score REAL,
    class TEXT,                     -- of the scorer's error
    seconds REAL NOT NULL,
    PRIMARY KEY (trial, position)
) WITHOUT ROWID;
