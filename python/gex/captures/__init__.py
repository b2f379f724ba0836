"""Which sizes share a capture, where captures keep their memory, what is counted of them."""
