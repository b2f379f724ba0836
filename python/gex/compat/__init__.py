"""PyTorch's private names, each behind a function that says what it does."""
