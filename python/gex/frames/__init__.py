"""Frames that Dynamo traced, kept for later processes."""
