-- Jobs of a look at some scenarios while developing, which are not to bury the others.

ALTER TABLE jobs ADD COLUMN selection INTEGER NOT NULL DEFAULT 0;

UPDATE jobs SET selection = 1
WHERE name IS NULL AND json_valid(record) AND json_extract(record, '$.narrowed')
    AND json_extract(record, '$.config.sample') IS NULL AND json_extract(record, '$.config.max_examples') IS NULL;
