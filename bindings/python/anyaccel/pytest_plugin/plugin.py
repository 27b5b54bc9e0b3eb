"""Gives each test a fresh device, and fails tests in which the checker finds problems."""

import collections
import contextlib
import gc
import os

import pytest

import anyaccel
from anyaccel import sim

from . import baseline, problems, sarif
from .report import failure

_STATE = ("memory", "dtypes", "latency", "faults", "seed")
_KNOWN = (*_STATE, "devices")


class Plugin:

    def __init__(self, config):
        self.config = config
        self.simulated = config._anyaccel_simulated
        self.checked = self.simulated and os.environ.get("SIM_CHECK", "off") not in ("", "0", "off")
        self.options = sim.options_from_environment() if self.simulated else None
        self.root = str(config.rootpath)
        options = config.option
        self.baseline_path = options.accelerator_baseline
        self.updates_baseline = options.accelerator_update_baseline
        if self.updates_baseline and not self.baseline_path:
            raise pytest.UsageError("anyaccel: --accelerator-update-baseline requires --accelerator-baseline FILE")
        exists = self.baseline_path and (not self.updates_baseline or os.path.exists(self.baseline_path))
        self.old_baseline = baseline.read(self.baseline_path) if exists else set()
        self.known = set() if self.updates_baseline else self.old_baseline
        self.sarif_path = options.accelerator_sarif
        self.all = []  # (problem, is known) pairs from all tests
        self.ran = set()
        self.reported = collections.Counter()  # number of problems already reported for the current test, per phase
        self.is_worker = hasattr(config, "workerinput")

    # The state of the device

    def options_of(self, item):
        """Return the marker's options. If several markers set an option, the closest one wins."""
        chosen = {}
        for marker in reversed(list(item.iter_markers("accelerator"))):
            unknown = sorted(set(marker.kwargs) - set(_KNOWN))
            if marker.args or unknown:
                given = unknown[0] if unknown else repr(marker.args[0])
                pytest.fail(f"anyaccel: @pytest.mark.accelerator has no option {given}; its options are {', '.join(_KNOWN)}", pytrace=False)
            chosen.update(marker.kwargs)
        return chosen

    def reset(self, chosen):
        """Give the devices the state that the marker requests."""
        texts = {name: chosen[name] for name in _STATE if name in chosen}
        try:
            options = sim.parse_options(self.options, **texts)
            gc.collect()  # frees tensors of earlier tests that are in reference cycles
            sim.reset(options)
        except anyaccel.Error as error:
            pytest.fail(f"anyaccel: {error}", pytrace=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        chosen = self.options_of(item)
        accelerator = anyaccel.get_accelerator()
        if chosen.get("devices", 0) > accelerator.device_count():
            pytest.skip(f"needs {chosen['devices']} devices; {accelerator.device_type()} has {accelerator.device_count()}")
        if self.simulated:
            self.reset(chosen)
        elif any(name in chosen for name in ("faults", "latency", "memory", "dtypes")):
            pytest.skip("needs the simulated accelerator (--accelerator sim)")
        self.reported.clear()

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item):
        result = yield
        # An error in asynchronous work is attributed to the test that launched the work. A test
        # whose marker injects the loss of the device expects that error.
        if "lost" not in "".join(self.options_of(item).get("faults", "")):
            anyaccel.get_accelerator().synchronize()
        return result

    # Problems

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if not self.checked:
            return report
        done = sum(self.reported.values())
        found = [problems.as_dict(each, item.nodeid, report.when, self.root) for each in sim.problems()[done:]]
        self.reported[report.when] += len(found)
        report.accelerator_problems = found
        unknown = [each for each in found if not self.updates_baseline and baseline.key(each) not in self.known]
        if not unknown:
            return report
        if report.passed or report.skipped and hasattr(report, "wasxfail"):
            report.outcome = "failed"
            report.longrepr = failure(unknown, self.root)
        else:
            text = "\n\n".join("\n".join(problems.lines(each, self.root)) for each in unknown)
            report.sections.append(("accelerator check", text))
        return report

    def pytest_runtest_logreport(self, report):
        self.ran.add(report.nodeid)
        for problem in getattr(report, "accelerator_problems", ()):
            self.all.append((problem, baseline.key(problem) in self.known))

    def pytest_sessionfinish(self):
        if self.checked:
            with contextlib.suppress(anyaccel.Error):
                sim.reset(self.options)  # the checker's summary at exit would repeat the reports
        if self.is_worker:
            return
        if self.updates_baseline:
            # Keep the entries for tests that did not run.
            kept = {entry for entry in self.old_baseline if entry[0] not in self.ran}
            baseline.write(self.baseline_path, kept | {baseline.key(problem) for problem, _ in self.all})
        if self.sarif_path:
            sarif.write(self.sarif_path, self.all)

    def pytest_report_header(self):
        accelerator = anyaccel.get_accelerator()
        text = f"accelerator: {accelerator.device_name()}, {accelerator.device_count()} devices"
        if self.simulated:
            text += f", simulated, checker {'on' if self.checked else 'off'}"
        return text

    def pytest_terminal_summary(self, terminalreporter):
        known = sum(is_known for _, is_known in self.all)
        found = {baseline.key(problem) for problem, _ in self.all}
        gone = [entry for entry in sorted(self.known) if entry[0] in self.ran and entry not in found]
        if known:
            terminalreporter.write_line(f"accelerator check: {known} known {'problem' if known == 1 else 'problems'} ({self.baseline_path})")
        for entry in gone:
            terminalreporter.write_line(f"accelerator check: no longer found, remove it from {self.baseline_path}: {' '.join(entry)}")
        if self.updates_baseline:
            count = f"{len(found)} {'problem' if len(found) == 1 else 'problems'}"
            terminalreporter.write_line(f"accelerator check: wrote {count} to {self.baseline_path}")
        if self.sarif_path:
            terminalreporter.write_line(f"accelerator check: wrote {os.path.relpath(self.sarif_path)}")
