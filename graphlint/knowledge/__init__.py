"""What torch does, as plain data: no torch import, every table with its source."""
