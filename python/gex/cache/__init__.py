"""Compiled graphs in a form that another process can load."""
