-- What comparing two jobs, and gates, ask of a trial.

ALTER TABLE trials ADD COLUMN comparable TEXT;   -- digest of what both sides of a comparison must have in common
ALTER TABLE trials ADD COLUMN known TEXT;        -- mode of the known failure it was: expected-fail, quarantine, skip
ALTER TABLE trials ADD COLUMN tags TEXT;         -- of its scenario, a JSON list
ALTER TABLE trials ADD COLUMN cluster TEXT;      -- scenarios of one cluster are not independent of each other
