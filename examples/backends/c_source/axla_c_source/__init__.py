"""A backend for axla that writes C99 and has the system's compiler build it."""
