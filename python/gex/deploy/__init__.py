"""Model files (.gexe): running them, and making them of PyTorch and TensorFlow models."""
