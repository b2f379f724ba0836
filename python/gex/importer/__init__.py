"""Converts an FX graph of ATen calls into a gex graph."""
