"""Small random models of Hugging Face's library, by family, and how they are held against eager."""
