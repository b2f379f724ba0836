"""`gex.training_step`: forward, loss, backward and optimizer as one graph."""
