"""Scheduling: the order of execution, and the copies that in-place writes need. Read `order.py`, then
`copies.py`.
"""
