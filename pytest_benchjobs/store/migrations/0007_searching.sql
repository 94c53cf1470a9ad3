-- Searching and filtering runs in indexes alone: their rows are ten times as large.

CREATE INDEX runs_searched ON runs (status, benchmark, agent, provider, model);
CREATE INDEX runs_by_tags ON runs (tags, status);
