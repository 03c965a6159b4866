"""Machines that code is generated for, as data: what passes, plans and emitters ask about one."""
