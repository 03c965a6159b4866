"""Removes layouts from the program (`normalize.py`), and brings dots into the one form that can be emitted
(`dots.py`).
"""
