"""Model files (.gexe): runs them, and makes them from PyTorch and TensorFlow models."""
