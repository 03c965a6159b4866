"""Removes layouts from the program (`normalize.py`), and gives dots the one form that has an emitter
(`dots.py`).
"""
