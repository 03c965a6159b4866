"""Shardings as text. axla keeps them as text; this brings equal shardings to equal texts, as XLA prints them."""

from __future__ import annotations


def canonical_sharding(text: str) -> str:
    """The text inside sharding={...} as XLA prints it."""
    return " ".join(text.split())
