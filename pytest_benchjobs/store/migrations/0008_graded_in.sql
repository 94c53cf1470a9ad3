-- Where a trial was graded.

ALTER TABLE trials ADD COLUMN graded_in TEXT;    -- fresh, agent_container, not_needed; NULL: an earlier version did not say
