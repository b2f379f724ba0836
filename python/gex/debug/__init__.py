"""Debugging aids for compiled graphs: dumps, prints, value checks and bisection.

`docs/debugging.md` describes their use; each module here is one of them.
"""
