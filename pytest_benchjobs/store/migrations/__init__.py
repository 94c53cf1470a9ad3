"""Steps of the history's schema, in order. A step that was released is never edited."""
