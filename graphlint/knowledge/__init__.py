"""What torch does, as plain data and small pure functions. No module here imports torch."""
