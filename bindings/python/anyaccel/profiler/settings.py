"""Settings for the recorder, which `anyaccel profile` passes in environment variables."""

import os
from dataclasses import dataclass


@dataclass
class Settings:
    """Limits for a recording."""
    folder: str  #: the results' folder
    window: float = 2.0  #: length of a window in seconds
    window_events: int = 100_000  #: maximum number of ops per window, to limit its memory
    max_events: int = 1_000_000  #: events per process, after which fewer windows are recorded
    lines: bool = True  #: whether to record source lines
    flush_share: float = 0.03  #: maximum share of the machine's time for writing windows
    flush_credit: float = 5.0  #: additional CPU seconds for writing windows
    poll: float = 0.05  #: interval in seconds at which to check whether a window is full

    @classmethod
    def from_environment(cls) -> "Settings":
        """Read the variables ANYACCEL_PROFILE_*. ANYACCEL_PROFILE_DIR must be set."""
        values = cls(os.path.abspath(os.environ["ANYACCEL_PROFILE_DIR"]))
        values.window = float(os.environ.get("ANYACCEL_PROFILE_WINDOW", values.window))
        values.max_events = int(os.environ.get("ANYACCEL_PROFILE_MAX_EVENTS", values.max_events))
        values.lines = os.environ.get("ANYACCEL_PROFILE_LINES", "1") != "0"
        return values
