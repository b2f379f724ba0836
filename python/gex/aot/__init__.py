"""Uses of AOTAutograd: partitioning, saved tensors, frozen parameters, and calls without its
wrappers."""
