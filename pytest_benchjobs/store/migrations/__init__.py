"""Migrations of the history's schema, in order. A released migration is never edited."""
