-- Median time of a run's trials that passed or failed in its job.

ALTER TABLE runs ADD COLUMN median_seconds REAL;

UPDATE runs SET median_seconds = (
        SELECT avg(seconds) FROM (
            SELECT seconds, row_number() OVER (ORDER BY seconds) AS place, count(*) OVER () AS many
            FROM trials
            WHERE job = runs.job AND run = runs.position AND reused IS NULL AND outcome IN ('passed', 'failed')
        ) WHERE place IN ((many + 1) / 2, many / 2 + 1)
    );

CREATE INDEX runs_by_median_seconds ON runs (median_seconds);
