"""What the commands share."""


class UsageError(Exception):
    """An argument that makes no sense; the command ends with status 2."""
