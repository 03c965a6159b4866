"""Reductions, sums along dimensions, counts."""

RECORDS = ""
