"""The order of execution, and the copies that make writing in place right. Read `order.py`, then
`copies.py`.
"""
