"""`python -m graphlint`."""

from graphlint.cli import script

if __name__ == "__main__":
    script()
