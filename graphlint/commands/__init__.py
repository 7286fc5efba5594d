"""The commands of `graphlint`, one file each, imported when they are called."""
