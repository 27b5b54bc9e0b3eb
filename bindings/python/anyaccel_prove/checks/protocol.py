"""Prints the results of the programs in this folder: one JSON object per line."""

import fnmatch
import json

SKIPPED = 77  # exit status if nothing applies


class Skip(Exception):
    """The check does not apply. The text is the reason."""


def say(**values):
    print(json.dumps(values), flush=True)


class Results:
    """Runs checks whose names match a pattern, prints their results and counts them."""
    def __init__(self, pattern="*", alive=lambda: True):
        self.pattern, self.alive = pattern, alive
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self.reason = ""  # why the last skipped check was skipped
        self.broken = None  # the check after which the device no longer works

    def run(self, name, check, *arguments):
        """Run a check: a function that returns a text, or raises an exception if it fails."""
        if self.broken or not fnmatch.fnmatchcase(name, self.pattern):
            return
        say(begin=name)
        status, message = "passed", ""
        try:
            message = check(*arguments) or ""
        except Skip as reason:
            status, message = "skipped", str(reason)
            self.reason = message
        except Exception as error:  # any failure is a result
            status, message = "failed", f"{type(error).__name__}: {error}"[:600]
            if not self.alive():
                self.broken = name
        say(check=name, status=status, message=message)
        self.counts[status] += 1

    def end(self, text=""):
        """Print the summary and return the exit code: 77 if all checks were skipped."""
        if self.counts["skipped"] and not self.counts["passed"] and not self.counts["failed"]:
            say(summary=f"skipped: {self.reason}")
            return SKIPPED
        counts = ", ".join(f"{count} {status}" for status, count in self.counts.items() if count)
        broken = f"the device failed in {self.broken}, later checks were not run" if self.broken else ""
        say(summary="; ".join(part for part in (text, counts, broken) if part))
        return 1 if self.counts["failed"] else 0
