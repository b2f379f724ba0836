"""Bucketed sizes in the manner of torch_npu, with results that are always right."""
