"""The order of execution, and the copies that writing in place needs. Read `order.py`, then `copies.py`."""
