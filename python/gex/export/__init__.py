"""`gex.compile`: compiles a graph traced by torch.export instead of Dynamo."""
