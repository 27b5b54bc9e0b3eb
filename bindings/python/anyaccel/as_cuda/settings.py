"""Options of as_cuda, which child processes inherit through environment variables."""

from __future__ import annotations

import dataclasses
import os

ENABLED = "ANYACCEL_AS_CUDA"
PRETEND = "ANYACCEL_AS_CUDA_PRETEND"
REPORT = "ANYACCEL_AS_CUDA_REPORT"
QUIET = "ANYACCEL_AS_CUDA_QUIET"


@dataclasses.dataclass
class Settings:
    """The options of `anyaccel run --as-cuda`."""
    pretend: str = ""
    report: str = ""
    quiet: bool = False

    @classmethod
    def from_environment(cls) -> "Settings":
        """Read the settings from environment variables."""
        return cls(os.environ.get(PRETEND, ""), os.environ.get(REPORT, ""), os.environ.get(QUIET, "") == "1")

    def export(self) -> None:
        """Set the environment variables for child processes."""
        os.environ[ENABLED] = "1"
        for name, value in ((PRETEND, self.pretend), (REPORT, os.path.abspath(self.report) if self.report else ""), (QUIET, "1" if self.quiet else "")):
            if value:
                os.environ[name] = value
            else:
                os.environ.pop(name, None)
