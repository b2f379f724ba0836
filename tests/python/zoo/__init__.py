"""Small random models of Hugging Face's library, by family, and their comparison with eager."""
