"""Quantized numbers."""

RECORDS = ""
