"""Errors that end the command with one line on standard error."""


class UsageError(Exception):
    """An invalid command line or configuration: exit code 2."""


class PortError(Exception):
    """A failure of the whole command: exit code 1."""
