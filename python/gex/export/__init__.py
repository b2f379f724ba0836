"""`gex.compile`: torch.export's graph instead of Dynamo's."""
