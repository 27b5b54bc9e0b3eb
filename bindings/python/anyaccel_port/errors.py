"""Errors that end the command with one line on standard error."""


class UsageError(Exception):
    """An invalid command line or configuration: exit code 2."""


class PortError(Exception):
    """A failure of the whole command: exit code 1."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while files were examined or reported. `written`: the number of files written by --fix."""

    def __init__(self, written: int):
        super().__init__()
        self.written = written
