"""Dynamo's side: the backends of torch.compile and what they ask of the traced function."""
