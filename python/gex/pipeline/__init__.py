"""Compiles an ATen graph to a function: one job passed through a list of stages."""
