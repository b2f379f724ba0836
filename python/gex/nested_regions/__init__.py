"""`gex.regions`: repeated blocks of a model are traced once."""
