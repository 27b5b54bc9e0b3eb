"""The benchmark runner: order of sides (the compared commands), verdicts, waiting for an idle
machine, and the page of results.
"""
import json
import os
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from unittest import mock

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "benchmarks"))
sys.dont_write_bytecode = True

from runner import load, measure, plot, write  # noqa: E402
from runner.declare import Benchmark, Side, Target, find  # noqa: E402

PLACES = {"python": sys.executable, "build": "/nowhere", "here": str(SOURCE / "benchmarks"), "repo": str(SOURCE)}


def side(name, code, **options):
    return Side(name, ["{python}", "-c", code], **options)


def bench(sides, targets=()):
    return Benchmark(title="T", about="a", sides=sides, targets=list(targets), name="t")


def quiet(_max_load):
    return 0.0


class Runner(unittest.TestCase):
    def setUp(self):
        # A separate test covers waiting.
        self.addCleanup(setattr, load, "wait_until_quiet", load.wait_until_quiet)
        if "busy" not in self.id():
            load.wait_until_quiet = quiet
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.trace = os.path.join(self.folder.name, "trace")

    def tracing(self, name, number="1"):
        return side(name, f"open({self.trace!r}, 'a').write({name!r}); print('noise'); print('{{\"x\": {number}}}')")

    # Fails if the runner does not alternate the order of the compared commands, or if the first
    # runs, which have cold caches, count.
    def test_sides_alternate(self):
        result = measure.run(bench([self.tracing("a"), self.tracing("b")]), PLACES, 7, max_load=99)
        with open(self.trace, encoding="ascii") as file:
            self.assertEqual(file.read(), "ab" + "abba" * 3 + "ab")
        self.assertEqual(result["numbers"]["a"]["x"]["rounds"], 7)

    # Fails if a target's verdict is wrong, or is not based on the median of paired rounds.
    def test_targets(self):
        targets = [Target("low", lambda n: n["b"]["x"] / n["a"]["x"], at_most=1.9),
                   Target("enough", lambda n: n["b"]["x"], at_least=2.0)]
        result = measure.run(bench([self.tracing("a"), self.tracing("b", "2")], targets), PLACES, 7, max_load=99)
        self.assertEqual([t["pass"] for t in result["targets"]], [False, True])
        self.assertIn("**miss**", write.section(result))

    # Fails if the median or a quartile is wrong.
    def test_summary(self):
        self.assertEqual(measure.summary([5, 1, 9, 3, 7]), {"median": 5, "low": 3, "high": 7, "min": 1, "max": 9, "rounds": 5})

    # Fails if measurements start while other programs are running.
    def test_busy_machine_is_refused(self):
        with self.assertRaises(load.TooBusy):
            load.wait_until_quiet(max_load=-1, patience=0)

    # Fails if the work of a measured command counts as a disturbance.
    def test_work_of_sides_is_not_a_disturbance(self):
        before = load.own_seconds()
        measure.call(side("a", "import time\nwhile time.process_time() < 0.5: pass\nprint('{\"x\": 1}')"), PLACES)
        self.assertGreater(load.own_seconds() - before, 0.4)

    # Fails if the work of other programs is not counted, or is counted per round instead of per
    # second.
    def test_work_of_other_programs_counts(self):
        busy, own, clock = iter([100.0, 106.0]), iter([10.0, 12.0]), iter([0.0, 8.0])
        with mock.patch.object(load, "busy_seconds", lambda: next(busy)), mock.patch.object(load, "own_seconds", lambda: next(own)), \
                mock.patch.object(load.time, "monotonic", lambda: next(clock)):
            with load.Watch() as watch:
                pass
        self.assertEqual(watch.others, 0.5)

    # Fails if figures that were not requested, or values that are not numbers, are kept.
    def test_only_requested_figures(self):
        numbers = measure.call(side("a", "print('{\"x\": 1, \"y\": 2, \"ok\": true, \"text\": \"3\"}')"), PLACES)
        self.assertEqual(numbers, {"x": 1.0, "y": 2.0})
        wanted = side("a", "print('{\"x\": 1, \"y\": 2}')", keep=("y",))
        self.assertEqual(measure.call(wanted, PLACES), {"y": 2.0})

    # Fails if the ratio is inverted, or one of several compared commands does not get a row.
    def test_tables(self):
        two = measure.run(bench([self.tracing("a", "2"), self.tracing("b", "5")]), PLACES, 7, max_load=99)
        self.assertIn("| x | 2.00 (2.00 to 2.00) | 5.00 (5.00 to 5.00) | 2.50 |", write.figures(two))
        four = measure.run(bench([self.tracing(name) for name in "abcd"]), PLACES, 7, max_load=99)
        self.assertIn("\n| d | 1.00 (1.00 to 1.00) |", write.figures(four))

    # Fails if a command that crashes or prints invalid output gives a figure.
    def test_failing_sides(self):
        for code, text in (("raise SystemExit(3)", "exit code 3"), ("print('hello')", "not a JSON object")):
            with self.assertRaisesRegex(measure.SideFailed, text):
                measure.run(bench([side("a", code)]), PLACES, 7, max_load=99)

    # Fails if a missing peer stops the benchmark, or its absence is not reported.
    def test_absent_peer(self):
        peer = side("peer", "1", needs=["{python}", "-c", "raise SystemExit(1)"])
        targets = [Target("compared with the peer", lambda n: n["a"]["x"] / n["peer"]["x"], at_most=1)]
        page = write.section(measure.run(bench([self.tracing("a"), peer], targets), PLACES, 7, max_load=99))
        self.assertIn("Left out because it is not installed: peer.", page)
        self.assertIn("Not evaluated because a program was left out: compared with the peer.", page)

    # Fails if the page does not say that a benchmark has few, long rounds, or does not show all
    # their figures. Too few short rounds must be an error.
    def test_few_long_rounds(self):
        few = bench([self.tracing("a"), self.tracing("b")])
        few.few_rounds, few.warm_up = "a build takes minutes.", False
        with self.assertRaisesRegex(measure.SideFailed, "too few rounds: got 2"):
            measure.run(few, PLACES, 2, max_load=99)
        pathlib.Path(self.trace).unlink()
        with mock.patch.object(measure, "LONG_ROUND_S", 0):
            page = write.section(measure.run(few, PLACES, 2, max_load=99))
            self.assertEqual(pathlib.Path(self.trace).read_text(encoding="ascii"), "abba")
            self.assertIn("Fewer than 7 rounds: a build takes minutes. All figures, round by round: a 1.00, 1.00; b 1.00, 1.00.", page)
            self.assertIn("2 rounds, ", page)
            self.assertIn("| x | 1.00 | 1.00 | 1.00 |", write.section(measure.run(few, PLACES, 1, max_load=99)))

    # Fails if a benchmark can have few rounds without giving a reason.
    def test_few_rounds_require_a_reason(self):
        text = "from runner.declare import Benchmark\nbenchmark = Benchmark(title='T', about='a', sides=[], rounds=3{})\n"
        folder = pathlib.Path(self.folder.name)
        (folder / "short.bench.py").write_text(text.format(""), encoding="ascii")
        with self.assertRaisesRegex(SystemExit, "few_rounds"):
            find(folder)
        (folder / "short.bench.py").write_text(text.format(", few_rounds='it takes an hour'"), encoding="ascii")
        self.assertEqual([benchmark.rounds for benchmark in find(folder)], [3])

    # Fails if repeating one benchmark removes the figures of other benchmarks from the page.
    def test_page_keeps_other_results(self):
        page = pathlib.Path(self.folder.name) / "benchmarks.md"
        for name in ("one", "two", "one"):
            result = measure.run(bench([self.tracing("a")]), PLACES, 7, max_load=99)
            write.record(page, {**result, "name": name, "title": name.upper()}, ["one", "two"])
        self.assertRegex(page.read_text(), r"(?s)## ONE.*## TWO")
        self.assertEqual(list(json.loads(page.with_suffix(".json").read_text())), ["one", "two"])

    # Fails if a benchmark's picture lacks a target or marks a missed target as met, or is not
    # well-formed XML.
    def test_picture(self):
        target = {"unit": "x", "min": 1, "max": 2, "rounds": 7, "kind": "at least", "limit": 1.0}
        result = measure.run(bench([self.tracing("a")]), PLACES, 7, max_load=99)
        result["targets"] = [{**target, "text": "a < b", "median": 2.0, "low": 1.5, "high": 2.5, "pass": True},
                             {**target, "text": "c", "median": 0.5, "low": 0.4, "high": 0.6, "pass": False},
                             {**target, "text": "d", "kind": "at most", "limit": 10.0, "median": 5.0, "low": 4.0, "high": 5.5, "pass": True}]
        page = pathlib.Path(self.folder.name) / "figures.md"
        write.record(page, {**result, "name": "one", "title": "One & all"}, ["one"])
        self.assertIn("(figures/one.svg)", page.read_text())
        tree = xml.etree.ElementTree.parse(page.with_suffix("") / "one.svg")
        names = {"s": "http://www.w3.org/2000/svg"}
        circles = tree.findall("s:circle", names)
        self.assertEqual([circle.get("fill") for circle in circles], [plot.MET, plot.MISSED, plot.MET])
        limit = next(float(t.get("x")) for t in tree.findall("s:text", names) if t.text == "limit")
        self.assertEqual([float(circle.get("cx")) > limit for circle in circles], [True, False, True])
        # The third target's value is half of its upper limit. Its circle has the same position as
        # the first one, whose value is twice its lower limit.
        self.assertEqual(circles[0].get("cx"), circles[2].get("cx"))
        write.record(page, {**result, "targets": [], "name": "one", "title": "One"}, ["one"])
        self.assertNotIn("svg", page.read_text())
        self.assertEqual(list(page.with_suffix("").glob("*")), [])

    # Fails if one of the project's benchmark files cannot be loaded.
    def test_benchmarks_of_the_project_load(self):
        names = [benchmark.name for benchmark in find(SOURCE / "benchmarks")]
        self.assertIn("calls", names)
        self.assertIn("start", names)


if __name__ == "__main__":
    unittest.main()
