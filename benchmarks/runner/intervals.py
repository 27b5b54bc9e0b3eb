"""Statistics of a comparison: order of runs, ratios of paired figures, confidence intervals and
verdicts.
"""
import dataclasses
import math
import random
import statistics

LEVEL = 0.95
RESAMPLES = 2000
FEWEST = 6  # with fewer rounds, the 95 % interval contains the true ratio in less than 95 % of comparisons
RATES = ("tokens_s", "passes_s", "gb_s", "gflops", "per_second")
TIMES = ("_ns", "_us", "_ms", "build_s")


def order(index):
    """Return the build that runs first and the one that runs second in round `index`.

    Two consecutive rounds run the builds in ABBA order, so that steady drift cancels out.
    """
    return ("old", "new") if index % 2 == 0 else ("new", "old")


def kind(number):
    """Return "time" or "rate", according to the unit at the end of the number's name, or None if
    the number is not a speed.
    """
    if number.endswith(RATES):
        return "rate"
    return "time" if number.endswith(TIMES) else None


def time_ratio(number, old, new):
    """Return new time / old time. For a rate, return old / new, so above 1 always means slower."""
    return old / new if kind(number) == "rate" else new / old


def middle_mean(values):
    """Return the interquartile mean. It omits the lowest and the highest quarter of the values,
    because other programs disturb individual runs.
    """
    cut = len(values) // 4
    middle = sorted(values)[cut:len(values) - cut]
    return sum(middle) / len(middle)


def student(level, freedom):
    """Return the two-sided quantile of Student's t distribution.

    Uses Abramowitz and Stegun 26.7.5, with an error below 1 % from 5 degrees of freedom.
    """
    z = statistics.NormalDist().inv_cdf(0.5 + level / 2)
    terms = (z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return sum(term / freedom**power for power, term in enumerate(terms))


@dataclasses.dataclass
class Interval:
    """A ratio and its confidence interval."""
    ratio: float
    low: float
    high: float

    @property
    def resolution(self):
        """Return half the width of the interval, in percent of the ratio."""
        return 50 * (self.high - self.low) / self.ratio

    def verdict(self, limit):
        if self.low > 1:
            return "slower"
        if self.high < 1:
            return "faster"
        return "no change within the noise" if self.resolution <= limit else f"resolution above {limit:g} %: run more rounds"


def bootstrap(ratios, level=LEVEL, resamples=RESAMPLES, seed=0):
    """Return the Interval of `ratios`, one per round: the interquartile mean on a logarithmic
    scale, and its percentile bootstrap interval.

    With few rounds, plain percentiles are too narrow. They are expanded by the ratio of Student's t
    to the normal distribution (the expanded percentile interval of Hesterberg, "What Teachers
    Should Know About the Bootstrap").
    """
    logs = [math.log(ratio) for ratio in ratios]
    count = len(logs)
    center = math.exp(middle_mean(logs))
    if count < FEWEST:
        return Interval(center, 0.0, math.inf)
    chance = random.Random(seed)
    means = sorted(middle_mean(chance.choices(logs, k=count)) for _ in range(resamples))
    tail = statistics.NormalDist().cdf(-math.sqrt(count / (count - 1)) * student(level, count - 1))
    place = min(int(tail * resamples), resamples // 2 - 1)
    return Interval(center, math.exp(means[place]), math.exp(means[-1 - place]))
