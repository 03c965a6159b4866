"""Layouts leave the program (`normalize.py`), and dots take the one form that has an emitter (`dots.py`)."""
