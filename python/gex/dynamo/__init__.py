"""The backends of torch.compile, and what they need from Dynamo."""
