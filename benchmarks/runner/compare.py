"""Compares the benchmarks of two commits: `benchmarks/run --compare`."""
import os
import pathlib
import subprocess
import sys
import time

from . import commits, declare, intervals, load, measure, verdicts

DEFAULT = ("cpu_adam", "all_reduce", "generate_135m", "generate_1b", "embed", "transformer", "sparse_attn")
ROUNDS, MINUTES, RESOLUTION = 8, 60.0, 3.0
EXTRA_ROUNDS = 2  # rounds are added in pairs (ABBA order) before the resolution is checked again


class Pair:
    """A program that a benchmark runs at both commits. `ours` contains the prefixes of the numbers
    to compare.
    """

    def __init__(self, name, sides, ours, only_ours):
        self.name, self.sides, self.ours = name, sides, ours
        self.only_ours = only_ours  # the programs of both commits can skip the measurements of peers


def own_prefixes(benchmark, side, reference):
    """Return the prefixes of a program's numbers that measure AnyAccel.

    If the commit does not declare prefixes, return those that this tree declares.
    """
    if "ours" in side:
        return tuple(side["ours"])
    same = [other for other in reference.get(benchmark["name"], {"sides": []})["sides"] if other["name"] == side["name"]]
    return tuple(same[0].get("ours", ("",))) if same else ("",)


def pair_up(found, reference):
    """Return the programs that both commits have, as pairs, and {"old": [name], "new": [name]} of
    the programs that only one commit has.
    """
    pairs, only = [], {"old": [], "new": []}
    sides = {word: {side["name"]: side for side in benchmark["sides"] if own_prefixes(benchmark, side, reference)}
             for word, benchmark in found.items()}
    for word, other in (("old", "new"), ("new", "old")):
        only[word] = [name for name in sides[word] if name not in sides[other]]
    for name in sides["old"]:
        if name in sides["new"]:
            both = {word: sides[word][name] for word in ("old", "new")}
            ours = own_prefixes(found["new"], both["new"], reference)
            pairs.append(Pair(name, both, ours, all("ours" in side for side in both.values()) and "" not in ours))
    return pairs, only


def side_of(pair, word, data):
    """Return the declared Side for measure.call().

    Fields that this runner does not know are dropped.
    """
    known = {key: value for key, value in pair.sides[word].items() if key in declare.Side.__dataclass_fields__}
    side = declare.Side(**known)
    side.command = move_data(side.command, data)
    side.env = dict(zip(side.env, move_data(side.env.values(), data)))
    if pair.only_ours:
        side.env["BENCHMARK_ONLY"] = ",".join(pair.ours)
    return side


def move_data(words, data):
    return [word.replace("{build}/benchmarks", str(data)) for word in words]


class Measured:
    """One benchmark at both commits."""

    def __init__(self, found, builds, cache, reference):
        self.found, self.builds = found, builds
        self.pairs, self.only = pair_up(found, reference)
        self.data = {word: commits.data_folder(found[word], build, cache) for word, build in builds.items()}

    def call(self, pair, word):
        build = self.builds[word]
        try:
            numbers = measure.one_turn(side_of(pair, word, self.data[word]), build.places)
        except measure.SideFailed as problem:
            raise measure.SideFailed(f"{word} ({build.commit[:12]}): {problem}") from problem
        return {name: value for name, value in numbers.items() if name.startswith(pair.ours)}

    def prepare(self):
        for word, build in self.builds.items():
            self.data[word].mkdir(parents=True, exist_ok=True)
            command = measure.fill(move_data(self.found[word]["prepare"], self.data[word]), build.places)
            if command and subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
                raise measure.SideFailed(f"{word} ({build.commit[:12]}): its preparation failed, see the output above")
            for pair in self.pairs:
                needs = measure.fill(pair.sides[word].get("needs", []), build.places)
                if needs and subprocess.run(needs, capture_output=True, check=False).returncode != 0:
                    raise measure.SideFailed(f"{word} ({build.commit[:12]}): {pair.name}: missing requirement: this command fails: "
                                             f"{' '.join(needs)[:300]}")
            if self.found[word]["warm_up"]:
                print(f"  warming up {word}", file=sys.stderr)
                for pair in self.pairs:
                    self.call(pair, word)

    def one_round(self, index):
        """Run each program on both builds, one right after the other, so that slow phases of the
        machine affect both.
        """
        numbers = {}
        for pair in self.pairs:
            for word in intervals.order(index):
                for number, value in self.call(pair, word).items():
                    numbers.setdefault((pair.name, number), {})[word] = value
        return numbers


def take_rounds(one_round, rounds, enough, deadline, max_load, clock=time.monotonic):
    """Run `rounds` rounds, and then more until enough(taken) or the deadline.

    Rounds that other programs disturb are repeated.
    """
    taken, disturbed, longest = [], 0, 0.0
    while True:
        extra = len(taken) - rounds
        if extra >= 0 and extra % EXTRA_ROUNDS == 0 and (enough(taken) or clock() + EXTRA_ROUNDS * longest > deadline):
            return taken
        load.wait_until_quiet(max_load)
        begin = clock()
        with load.Watch() as watch:
            numbers = one_round(len(taken))
        longest = max(longest, clock() - begin)
        if watch.others > max_load:
            disturbed += 1
            print(f"  round disturbed: other programs used {watch.others:.2f} cores", file=sys.stderr)
            if disturbed > measure.EXTRA_ROUNDS * max(rounds, len(taken)):
                raise load.TooBusy(f"machine too busy: other programs disturbed {disturbed} rounds; no figures are given")
            continue
        taken.append(numbers)
        print(f"  round {len(taken)}, {longest:.0f} s", file=sys.stderr)


def compare(measured, rounds, limit, deadline, max_load, clock=time.monotonic):
    """Return the verdicts.Row of each figure.

    A figure that differs is measured again in new rounds, whose result is final. Among a hundred
    figures of two identical programs, a few differ by chance, but a figure rarely differs twice in
    the same direction.
    """
    def resolved(taken):
        return all(row.interval.resolution <= limit for row in verdicts.rows(taken) if row.interval)

    begin = clock()
    first = take_rounds(measured.one_round, rounds, resolved, begin + (deadline - begin) / 2, max_load, clock)
    rows = verdicts.rows(first)
    suspects = {row.key: row for row in rows if row.differs()}
    if not suspects:
        return rows
    print(f"  {len(suspects)} figures differ: measuring them again", file=sys.stderr)
    again = {row.key: row for row in verdicts.rows(take_rounds(measured.one_round, rounds, resolved, deadline, max_load, clock))}
    return [again.get(row.key, row) if row.key in suspects else row for row in rows]


def choose(options, builds):
    """Return the names of the benchmarks to compare and, for each commit, of the benchmarks that
    only this commit has.
    """
    known = {word: build.benchmarks for word, build in builds.items()}
    everything = list(dict.fromkeys([*known["old"], *known["new"]]))
    unknown = [name for name in options.names if name not in everything]
    if unknown:
        raise commits.CannotCompare(f"unknown benchmark: got {commits.quoted(unknown[0])}, expected one of: {', '.join(everything)}. "
                                    "List benchmarks with `benchmarks/run --list`.")
    chosen = options.names or (everything if options.all else [name for name in DEFAULT if name in everything])
    only = {word: [name for name in chosen if name not in known[other]] for word, other in (("old", "new"), ("new", "old"))}
    return [name for name in chosen if name in known["old"] and name in known["new"]], only


def set_up(options, root, cache, python):
    """Check out and build both commits.

    Return the builds, the names to compare, and the benchmarks that only one commit has.
    """
    names = {"old": options.compare, "new": options.with_commit or "HEAD"}
    resolved = {word: commits.resolve(root, name) for word, name in names.items()}
    if not options.with_commit:
        commits.check_clean(root)
    builds = {}
    for word, (commit, subject) in resolved.items():
        builds[word] = commits.Build(word, commit, subject, commits.check_out(root, cache, commit), python)
        builds[word].benchmarks = commits.describe(builds[word].source)
    chosen, only = choose(options, builds)
    for word, build in builds.items():
        if word == "old" or build.commit != builds["old"].commit:
            print(f"== building {word}: {build.commit[:12]} {build.subject}", file=sys.stderr)
            commits.configure(root, build)
            commits.compile_targets(root, build, [build.benchmarks[name] for name in chosen], options.jobs or commits.jobs_that_fit())
    return builds, chosen, only


def run(options, root, python):
    """Compare the commits and return the exit status.

    0: nothing is slower. 1: something is slower. 2: the comparison cannot start. 3: a benchmark
    gave no figures.
    """
    cache = root / "build" / "compare"
    try:
        reference = commits.describe(root)
        builds, chosen, only = set_up(options, root, cache, python)
    except commits.CannotCompare as problem:
        print(f"benchmarks: cannot compare: {problem}", file=sys.stderr)
        return 2
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))
    page = verdicts.Page(builds, only, options.resolution, options.max_load)
    end = time.monotonic() + 60 * options.minutes
    for place, name in enumerate(chosen):
        found = {word: build.benchmarks[name] for word, build in builds.items()}
        print(f"== {name}: {found['new']['title']}", file=sys.stderr)
        measured = Measured(found, builds, cache, reference)
        begin = time.monotonic()
        deadline = begin + max(0.0, end - begin) / (len(chosen) - place)  # divides the remaining time equally
        try:
            measured.prepare()
            rows = compare(measured, options.rounds or ROUNDS, options.resolution, deadline, options.max_load) if measured.pairs else []
            page.add(found["new"]["title"], rows, measured.only)
        except (load.TooBusy, measure.SideFailed) as problem:
            print(f"benchmarks: {name}: {problem}", file=sys.stderr)
            page.failed(found["new"]["title"], str(problem))
        if options.out:
            pathlib.Path(options.out).write_text(page.text(), encoding="utf-8")
    print(page.text(), end="")
    return 1 if page.count("slower") else 3 if page.failures else 0
