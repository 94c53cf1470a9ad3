-- What scorers measured beside the score.

ALTER TABLE trials ADD COLUMN metrics TEXT;      -- JSON: name -> [value, unit or null, higher or lower]; NULL: none
