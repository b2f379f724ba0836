class CannotStart(Exception):
    """There is nothing to run, or nothing to run it on."""
