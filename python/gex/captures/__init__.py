"""Captures: gears, memory pools, counters, warmup and error mode."""
