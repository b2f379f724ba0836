"""Bucketed sizes as in torch_npu, with results that are always correct."""
