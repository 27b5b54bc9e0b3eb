"""The saved results, and the pages that are generated from them."""

import datetime
import json
import os
import re

from . import html, markdown


# An installation does not know its commit, so these facts also decide whether results apply.
SAME_FACTS = ("AnyAccel", "torch", "CUDA of torch", "device", "devices", "driver", "stands in")


def identity(head):
    """Return what two reports must have in common to share results."""
    facts = head.get("facts")
    facts = facts if isinstance(facts, dict) else {}
    return [head.get(name) for name in ("commit", "backend", "build")] + [facts.get(name) for name in SAME_FACTS]


def unused(folder, *words):
    """Return the path of a new file for an earlier report."""
    stem = "-".join(re.sub(r"[^\w.]+", "-", str(word)) for word in ("report", *words))
    path, number = folder / f"{stem}.json", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.json"
    return path


class Report:
    """Results of one commit, backend, build and machine in a folder. `names`: all parts, in the order of the pages."""
    def __init__(self, folder, head, names):
        self.folder, self.file = folder, folder / "report.json"
        self.order = {name: number for number, name in enumerate(names)}
        folder.mkdir(parents=True, exist_ok=True)
        old = self.read()
        same = identity(old) == identity(head)
        self.data = {**head, "parts": old.get("parts", {}) if same else {}}
        self.kept = None
        if old and not same:
            self.kept = unused(folder, *(old.get(name, "old") for name in ("commit", "backend", "build")))
            self.file.rename(self.kept)
        self.write()

    def read(self):
        """Return the saved data, or nothing if the file is missing or damaged."""
        try:
            found = json.loads(self.file.read_text())
            return found if isinstance(found, dict) and isinstance(found.get("parts", {}), dict) else {}
        except (OSError, ValueError):
            return {}

    def status(self, name):
        return self.data["parts"].get(name, {}).get("status")

    def save(self, name, result):
        parts = {**self.data["parts"], name: result}
        self.data["parts"] = dict(sorted(parts.items(), key=lambda part: self.order.get(part[0], len(self.order))))
        self.write()

    def write(self):
        self.data["updated"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        # Replace each file atomically, because the process may be killed at any time.
        for name, text in (("report.json", json.dumps(self.data, indent=1) + "\n"), ("report.md", markdown.page(self.data)),
                           ("report.html", html.page(self.data))):
            aside = self.folder / (name + ".new")
            aside.write_text(text)
            os.replace(aside, self.folder / name)
