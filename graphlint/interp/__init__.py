"""The static witness: follows every capture of a program and writes down what may happen, as facts."""

from __future__ import annotations

from graphlint.interp.analysis import Analysis, analyse

__all__ = ["Analysis", "analyse"]
