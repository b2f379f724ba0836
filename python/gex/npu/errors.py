class CannotStart(Exception):
    """There is nothing to run, or no device to run it on."""
