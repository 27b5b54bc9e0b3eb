"""The saved results, and the pages that are generated from them."""

import datetime
import json
import os

from . import html, markdown


class Report:
    """Results of one commit, backend and build in a folder. `names`: all parts, in the order of the pages."""
    def __init__(self, folder, head, names):
        self.folder, self.file = folder, folder / "report.json"
        self.order = {name: number for number, name in enumerate(names)}
        folder.mkdir(parents=True, exist_ok=True)
        old = self.read()
        same = all(old.get(name) == head[name] for name in ("commit", "backend", "build"))
        self.data = {**head, "parts": old.get("parts", {}) if same else {}}
        self.kept = None
        if old and not same:
            self.kept = folder / f"report-{old.get('commit', 'old')}-{old.get('backend', 'old')}.json"
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
