"""Watchers: each follows one thing through a run (places, numbers, outputs, order ...) and notes what happens to it."""
