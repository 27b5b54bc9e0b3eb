"""benchmarks/run --compare: statistics, order of runs and verdicts."""
import json
import os
import pathlib
import random
import sys
import types
import unittest
from unittest import mock

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "benchmarks"))
sys.dont_write_bytecode = True

import by_turns  # noqa: E402
from runner import commits, compare, intervals, load, verdicts  # noqa: E402


def noisy(center, seed, count=8, noise=0.01):
    chance = random.Random(seed)
    return [center * (1 + chance.gauss(0, noise)) for _ in range(count)]


class Statistics(unittest.TestCase):
    # Fails if one build always runs first. A drift in the machine's speed would then look like a
    # difference.
    def test_order_is_abba(self):
        words = [word for index in range(4) for word in intervals.order(index)]
        self.assertEqual(words, ["old", "new", "new", "old", "old", "new", "new", "old"])

    # Fails if tokens per second are treated as seconds, so that a faster commit is reported as
    # slower.
    def test_rates_are_inverted(self):
        self.assertEqual(intervals.time_ratio("decode_tokens_s", 10, 20), 0.5)
        self.assertEqual(intervals.time_ratio("tokens_per_second", 10, 20), 0.5)
        self.assertEqual(intervals.time_ratio("step_ms", 10, 20), 2)
        self.assertIsNone(intervals.kind("logits_off"))

    # Fails if a benchmark uses a unit of speed that intervals.kind() does not know. Its figures
    # would not be compared.
    def test_units_of_all_benchmarks_are_known(self):
        results = json.loads((SOURCE / "docs/benchmarks.json").read_text(encoding="utf-8")).values()
        numbers = {name for result in results for side in result["numbers"].values() for name in side}
        self.assertGreater(len(numbers), 100)
        other = {name for name in numbers if intervals.kind(name) is None}
        self.assertEqual(other, {"logits_off", "loss", "peak_mib"})

    # Fails if rounds disturbed by other programs shift the ratio.
    def test_middle_mean_ignores_outliers(self):
        self.assertEqual(intervals.middle_mean([1, 1, 2, 2, 3, 3, 100, 0]), 2)

    # Fails if the quantile of Student's t distribution, which determines all intervals, is wrong.
    # The expected values are from tables.
    def test_student(self):
        for freedom, want in ((5, 2.571), (7, 2.365), (9, 2.262), (29, 2.045)):
            self.assertAlmostEqual(intervals.student(0.95, freedom), want, delta=0.01)

    # Fails if intervals are too narrow for few rounds, or too wide to show any difference. Plain
    # percentiles contain the true ratio in only 89 % of these trials.
    def test_intervals_contain_the_true_ratio(self):
        found = [intervals.bootstrap(noisy(1, seed, 6), resamples=600, seed=seed) for seed in range(400)]
        self.assertGreaterEqual(sum(each.low <= 1 <= each.high for each in found), 0.93 * len(found))
        self.assertLess(sum(each.resolution for each in found) / len(found), 1.6)

    # Fails if more rounds do not narrow the interval. The runner adds rounds until it is narrow
    # enough.
    def test_more_rounds_give_a_narrower_interval(self):
        few, many = (intervals.bootstrap(noisy(1, 3, count)).resolution for count in (8, 40))
        self.assertLess(many, few / 1.5)

    # Fails if a verdict has the wrong direction, or a clear difference is missed because its
    # interval is wide.
    def test_verdicts(self):
        for center, noise, want in ((1.1, 0.01, "slower"), (0.9, 0.01, "faster"), (1.5, 0.1, "slower"), (1.0, 0.01, "no change within the noise"),
                                    (1.0, 0.2, "resolution above 3 %: run more rounds")):
            self.assertEqual(intervals.bootstrap(noisy(center, 5, noise=noise)).verdict(3), want, (center, noise))

    # Fails if a few rounds that agree by chance give a verdict.
    def test_too_few_rounds_give_no_verdict(self):
        few = intervals.bootstrap([2.0] * (intervals.FEWEST - 1))
        self.assertEqual(few.verdict(3), "resolution above 3 %: run more rounds")
        self.assertEqual(intervals.bootstrap([2.0] * intervals.FEWEST).verdict(3), "slower")


def numbers(old, new, key=("side", "x_us")):
    return {key: {"old": old, "new": new}}


class Rounds(unittest.TestCase):
    def setUp(self):
        self.enterContext(mock.patch.object(load, "wait_until_quiet", lambda _: 0.0))
        self.enterContext(mock.patch.object(sys, "stderr", open(os.devnull, "w", encoding="ascii")))
        self.addCleanup(sys.stderr.close)
        self.now, self.indices, self.busy = 0.0, [], []
        self.enterContext(mock.patch.object(load.Watch, "__exit__", self.leave))

    def leave(self, *_):
        return None

    def one_round(self, index):
        self.indices.append(index)
        self.now += 10
        return numbers(1.0, 1.0)

    def take(self, rounds, enough, deadline, max_load=9):
        taken = compare.take_rounds(self.one_round, rounds, enough, deadline, max_load, clock=lambda: self.now)
        return len(taken)

    # Fails if rounds are added although the resolution is reached, or fewer than `rounds` are run.
    def test_stops_at_the_resolution(self):
        self.assertEqual(self.take(8, lambda taken: True, 10_000), 8)
        self.assertEqual(self.take(8, lambda taken: len(taken) >= 11, 10_000), 12)  # added in pairs: ABBA

    # Fails if the time limit is ignored, or if it skips rounds that --rounds requests.
    def test_stops_at_the_deadline(self):
        self.assertEqual(self.take(8, lambda taken: False, 125), 12)
        self.assertEqual(self.take(8, lambda taken: False, 0), 8)

    # Fails if a disturbed round counts, or repeating it changes the order of the builds.
    def test_disturbed_rounds_are_repeated(self):
        others = iter([0.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0])

        def leave(watch, *_):
            watch.others = next(others)

        with mock.patch.object(load.Watch, "__exit__", leave):
            self.assertEqual(self.take(6, lambda taken: True, 0, max_load=0.5), 6)
        self.assertEqual(self.indices, [0, 1, 1, 2, 3, 4, 5])

    # Fails if the runner never gives up on a busy machine.
    def test_gives_up_on_a_busy_machine(self):
        def leave(watch, *_):
            watch.others = 5.0

        with mock.patch.object(load.Watch, "__exit__", leave), self.assertRaises(load.TooBusy):
            self.take(6, lambda taken: True, 0, max_load=0.5)

    def judge(self, ratios):
        """Return the verdicts for a figure x_us with these ratios, and for a figure y_us that
        differs only after the first 8 rounds.
        """
        source, other = iter(ratios), iter([1.0] * 8 + [1.1] * 8)
        measured = types.SimpleNamespace(one_round=lambda index: numbers(1.0, next(source)) | numbers(1.0, next(other), ("side", "y_us")))
        rows = compare.compare(measured, 8, 3.0, 0.0, 9)
        return {row.key[1]: row.interval.verdict(3.0) for row in rows}

    # Fails if a difference is reported although further rounds do not confirm it, or although only
    # the further rounds show it. With a hundred figures, every run would then end with exit status
    # 1.
    def test_unconfirmed_differences_are_dropped(self):
        self.assertEqual(self.judge(noisy(1.02, 1) + noisy(1.0, 2)), {"x_us": "no change within the noise", "y_us": "no change within the noise"})

    # Fails if a real difference is not reported, or if further rounds run although there is no
    # difference to confirm.
    def test_differences_are_confirmed(self):
        self.assertEqual(self.judge(noisy(1.05, 1) + noisy(1.05, 2))["x_us"], "slower")
        self.assertEqual(self.judge(noisy(0.95, 1) + noisy(0.95, 2))["x_us"], "faster")
        # There are only 8 ratios, so further rounds would fail.
        self.assertEqual(self.judge(noisy(1.0, 2))["x_us"], "no change within the noise")


class Table(unittest.TestCase):
    def page(self, taken, only=None):
        builds = {word: types.SimpleNamespace(commit=word * 10, subject="s") for word in ("old", "new")}
        page = verdicts.Page(builds, {"old": ["gone"], "new": []}, 3.0, 0.15)
        page.add("Title", verdicts.rows(taken), only or {"old": [], "new": ["added side"]})
        return page

    # Fails if a number in a row is in the wrong column, or if the verdict `slower` is not counted.
    def test_rows(self):
        page = self.page([numbers(10.0, 12.0)] * 8)
        self.assertIn("| side: x us | 10.00 | 12.00 | 1.200 | 1.200 to 1.200 | 0.0 % | 8 | slower |", page.text())
        self.assertIn("1 figures: 1 slower, 0 faster, 0 without a change", page.text())
        self.assertEqual(page.count("slower"), 1)

    # Fails if a figure that only one commit has prevents the comparison, or is not reported.
    def test_figures_of_one_commit(self):
        text = self.page([numbers(10.0, 10.0) | {("side", "a_us"): {"old": 1.0}, ("side", "b_us"): {"new": 2.0}}] * 8).text()
        self.assertIn("| side: a us | 1.00 |  |  |  |  | 8 | only in OLD |", text)
        self.assertIn("| side: b us |  | 2.00 |  |  |  | 8 | only in NEW |", text)
        self.assertIn("Benchmarks only in OLD: gone.", text)
        self.assertIn("Only in NEW: added side.", text)

    # Fails if a number that is not a speed gets a verdict, or a zero causes a crash.
    def test_numbers_that_are_not_speeds(self):
        text = self.page([{("side", "logits_off"): {"old": 1.0, "new": 2.0}, ("side", "z_us"): {"old": 0.0, "new": 2.0}}] * 8).text()
        self.assertIn("| side: logits off | 1.00 | 2.00 |  |  |  | 8 | not a speed |", text)
        self.assertIn("| side: z us | 0 | 2.00 |  |  |  | 8 | not a speed |", text)

    # Fails if a benchmark without figures is missing from the page.
    def test_failures(self):
        page = self.page([numbers(1.0, 1.0)] * 8)
        page.failed("Other", "side: exit code 3:\nSegmentation fault")
        self.assertIn("No figures: side: exit code 3: Segmentation fault", page.text())
        self.assertIn("No figures: Other.", page.text())


def declared(sides):
    return {"name": "b", "title": "T", "prepare": [], "warm_up": False, "sides": sides}


class Sides(unittest.TestCase):
    # Fails if peers run, which takes most of the time, or a command that only one commit has is not
    # reported.
    def test_pairing_of_sides(self):
        found = {"old": declared([{"name": "a", "ours": [""]}, {"name": "peer", "ours": []}, {"name": "gone", "ours": [""]}]),
                 "new": declared([{"name": "a", "ours": [""]}, {"name": "peer", "ours": []}, {"name": "added", "ours": [""]}])}
        pairs, only = compare.pair_up(found, {})
        self.assertEqual([pair.name for pair in pairs], ["a"])
        self.assertEqual(only, {"old": ["gone"], "new": ["added"]})

    # Fails if peers count as AnyAccel's commands for a commit whose benchmarks do not declare
    # `ours`. Both commits must run the same commands, so that both are measured under the same
    # conditions.
    def test_commits_that_do_not_declare_ours(self):
        reference = {"b": declared([{"name": "a", "ours": ["our_"]}, {"name": "peer", "ours": []}])}
        old = declared([{"name": "a", "command": []}, {"name": "peer", "command": []}])
        new = declared([{"name": "a", "command": [], "ours": ["our_"]}, {"name": "peer", "command": [], "ours": []}])
        [pair], only = compare.pair_up({"old": old, "new": new}, reference)
        self.assertEqual((pair.name, pair.ours, only), ("a", ("our_",), {"old": [], "new": []}))
        self.assertNotIn("BENCHMARK_ONLY", compare.side_of(pair, "new", "/data").env)
        [pair], _ = compare.pair_up({"old": new, "new": new}, reference)
        self.assertEqual(compare.side_of(pair, "old", "/data").env["BENCHMARK_ONLY"], "our_")

    # Fails if a field that a later commit adds to Side prevents the comparison, or if a benchmark's
    # files, such as models, are in the build tree, which is recreated more often.
    def test_side_of_another_commit(self):
        side = {"name": "a", "command": ["{build}/bin/x", "{build}/benchmarks/models"], "env": {"OUT": "{build}/benchmarks/o"}, "ours": [""], "later": 1}
        [pair], _ = compare.pair_up({"old": declared([side]), "new": declared([side])}, {})
        made = compare.side_of(pair, "old", pathlib.Path("/data"))
        self.assertEqual((made.command, made.env), (["{build}/bin/x", "/data/models"], {"OUT": "/data/o"}))

    # Fails if a program measures peers that were not requested, or omits its own figures.
    def test_requested_sides(self):
        sides = {"anyaccel": 1, "own_state": 2, "torch": 3, "anyaccelerate": 4}
        with mock.patch.dict(os.environ, BENCHMARK_ONLY="anyaccel_,own_"):
            self.assertEqual(by_turns.wanted(sides), {"anyaccel": 1, "own_state": 2})
        with mock.patch.dict(os.environ, BENCHMARK_ONLY=""):
            self.assertEqual(by_turns.wanted(sides), sides)

    # Fails if one of the project's benchmarks has no command that measures AnyAccel.
    def test_every_benchmark_has_an_anyaccel_side(self):
        reference = commits.describe(SOURCE)
        self.assertLessEqual(set(compare.DEFAULT), set(reference))
        for name, benchmark in reference.items():
            pairs, only = compare.pair_up({"old": benchmark, "new": benchmark}, {})
            self.assertTrue(pairs, name)
            self.assertEqual(only, {"old": [], "new": []})
            self.assertFalse({"DeepSpeed", "llama.cpp", "transformers"} & {pair.name.split()[0] for pair in pairs if "AnyAccel" not in pair.name}, name)


if __name__ == "__main__":
    unittest.main()
