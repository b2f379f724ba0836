"""Around AOTAutograd: what it splits, saves and binds, and calls that go past its wrappers."""
