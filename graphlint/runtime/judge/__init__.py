"""Judges: pure functions from what was seen to what it proves, one file for each idea."""
