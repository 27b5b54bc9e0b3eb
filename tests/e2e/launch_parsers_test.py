"""Tests that host files, filters and core lists are parsed as DeepSpeed's own functions parse them,
for a table of cases and for random cases. The table gives reasons for deliberate differences.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

from shell import shell

PYTHON = os.environ["ANYACCEL_TEST_PYTHON"]
DATA = pathlib.Path(os.environ["ANYACCEL_SOURCE_DIR"]) / "tests/data/topologies"
# A machine with 112 cores.
MACHINE = DATA / "sockets_of_56.xml"

# A program that reads cases from its first argument and writes DeepSpeed's results to the second.
# DeepSpeed logs to standard output, so results go to a file.
JUDGE = """import json, sys
from deepspeed.launcher.runner import fetch_hostfile, parse_inclusion_exclusion
from deepspeed.utils.numa import parse_range_list
def hosts(text, include, exclude):
    with open(sys.argv[3], "w") as file:
        file.write(text)
    kept = parse_inclusion_exclusion(fetch_hostfile(sys.argv[3]), include, exclude)
    return [[name, slots] for name, slots in kept.items() if slots]
out = []
for case in json.load(open(sys.argv[1])):
    try:
        out.append(hosts(*case) if len(case) == 3 else parse_range_list(*case))
    except (ValueError, AssertionError, KeyError, IndexError):
        out.append(None)
json.dump(out, open(sys.argv[2], "w"))
"""

TWO = "a slots=4\nb slots=2\n"
# Cases with equal results: host file, --include, --exclude.
HOSTS = [
    (TWO, "", ""), ("# first\n\n  a slots=4  \n#b slots=1\nb\tslots=2 max_slots=8\n", "", ""), ("a slots=00002\n", "", ""), ("a slots=2", "", ""),
    ("b slots=1\na slots=1\n", "", ""), ("a slots=1\r\nb slots=1\r\n", "", ""), ("a slots=0\nb slots=2\n", "", ""), ("a slots=0\nb slots=2\n", "", "a"),
    ("a slots=0\nb slots=2\n", "a@b", ""),
    ("", "", ""), ("# nothing\n", "", ""), ("a\n", "", ""), ("a slots=\n", "", ""), ("a slots=-1\n", "", ""), ("a slots = 4\n", "", ""), ("slots=4\n", "", ""),
    ("a Slots=4\n", "", ""), ("a x slots=4\n", "", ""), ("a slots=2\na slots=2\n", "", ""), ("a slots=2\nb\n", "", ""), ("a slots=two\n", "", ""), ("a slots=O4\n", "", ""),
    (TWO, "a", ""), (TWO, "b@a", ""), (TWO, "b:1@a:3,0", ""), (TWO, "a:0,0", ""), (TWO, "a:1@a:0", ""), (TWO, "a:1@a", ""), (TWO, "a:01", ""), (TWO, "a: 1", ""),
    (TWO, "c", ""), (TWO, "a:4", ""), (TWO, "a:", ""), (TWO, "a:x", ""), (TWO, "a:-1", ""), (TWO, "a@", ""), (TWO, "@", ""), (TWO, "a:0:1", ""), (TWO, "a:0,", ""),
    (TWO, "", "a"), (TWO, "", "a:0"), (TWO, "", "b:1,0"), (TWO, "", "a:3@b:0,0"), (TWO, "", "a:0@a"), (TWO, "", "c"), (TWO, "", "a:9"), (TWO, "a", "b"),
]
# Deliberate differences: case, DeepSpeed's result (None if it rejects the case), our result, and
# the reason.
DELIBERATE_HOST_DIFFERENCES = [
    (("a slots=4abc\n", "", ""), [["a", [0, 1, 2, 3]]], None, "DeepSpeed reads the digits of a malformed number"),
    (("a slots=2,3\n", "", ""), [["a", [0, 1]]], [["a", [2, 3]]], "slots may have names"),
    (("a slots=GPU-5e\n", "", ""), None, [["a", ["GPU-5e"]]], "slots may have names, such as the UUIDs of devices"),
    (("a slots=0\n", "", ""), [], None, "a job needs at least one rank"),
    ((TWO, "", "a@b"), [], None, "a job needs at least one rank"),
    (("a slots=5000\n", "", ""), [["a", list(range(5000))]], None, "such a count is a typing error"),
    (("a@b slots=1\n", "", ""), [["a@b", [0]]], None, "no filter could name this host"),
    (("a:1 slots=1\n", "", ""), [["a:1", [0]]], None, "no filter could name this host"),
    (("-oProxyCommand=x slots=1\n", "", ""), [["-oProxyCommand=x", [0]]], None, "ssh would parse the name as an option"),
    ((TWO, "a @ b:0", ""), None, [["a", [0, 1, 2, 3]], ["b", [0]]], "blanks around a name are ignored"),
    ((TWO, "a:+1", ""), [["a", [1]]], None, "slot names are compared as text"),
]
CORES = ["0", "0,2-4,6", "5-5", "0-111", "007,8", "3, 4", "", ",", "1,", "-1", "3-", "-", "5-3", "0--3", "1-2-3", "x", "0x10", "1.5", "0;1"]
DELIBERATE_CORE_DIFFERENCES = [
    ("3,1", None, [1, 3], "numbers may have any order"), ("1,1", None, [1], "repeated numbers count once"), ("1-3,2-4", None, [1, 2, 3, 4], "ranges may overlap"),
    ("0-8:4", None, [0, 4, 8], "strides are supported"), ("8-9,0-2:2", None, [0, 2, 8, 9], "strides may have any order"),
    ("1 - 3", [1, 2, 3], None, "a blank inside a range is a typing error; DeepSpeed's documentation forbids it too"), ("+3", [3], None, "CPU numbers have no sign"),
    ("1_0", [10], None, "numbers consist of digits only"),
]


def ours_hosts(text, include, exclude):
    with tempfile.NamedTemporaryFile("w", suffix=".hosts") as file:
        file.write(text)
        file.flush()
        filters = (f"--include '{include}' " if include else "") + (f"--exclude '{exclude}' " if exclude else "")
        done = shell(f"anyaccel launch --dry_run --json --oversubscribe --force_multi --hostfile {file.name} {filters} true",
                     # Named slots require a backend other than cpu.
                     DS_ACCELERATOR="npu" if "slots=GPU" in text else "cpu", HOME="/")
    if done.returncode:
        return None
    out = []
    for rank in json.loads(done.stdout)["ranks"]:
        if not out or out[-1][0] != rank["host"]:
            out.append([rank["host"], []])
        out[-1][1].append(int(rank["device"]) if rank["device"].isdigit() else rank["device"])
    return out


def ours_cores(text):
    done = shell(f"anyaccel launch --dry_run --json --num_accelerators 1 --topology {MACHINE} '--bind_core_list={text}' true", DS_ACCELERATOR="cpu", HOME="/")
    return None if done.returncode else json.loads(done.stdout)["ranks"][0]["cores"]


def theirs(cases):
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("cases", "answers", "hosts")]
        pathlib.Path(paths[0]).write_text(json.dumps(cases))
        subprocess.run([PYTHON, "-c", JUDGE, *paths], check=True, capture_output=True, text=True, cwd=folder)
        return json.loads(pathlib.Path(paths[1]).read_text())


class Parsers(unittest.TestCase):
    def compare(self, cases, ours):
        for case, want in zip(cases, theirs(cases)):
            self.assertEqual(ours(*case), want, repr(case))

    def compare_deliberate_differences(self, table, ours):
        for (case, _, want, why), answer in zip(table, theirs([entry[0] for entry in table])):
            with self.subTest(why):
                self.assertEqual(answer, table[[entry[0] for entry in table].index(case)][1], f"DeepSpeed changed: {case!r}")
                self.assertEqual(ours(*case), want, repr(case))

    # Fails if a host file or filter gives a different result than in DeepSpeed.
    def test_hosts(self):
        self.compare(HOSTS, ours_hosts)

    # Fails if AnyAccel or DeepSpeed no longer gives the result in the table of deliberate
    # differences.
    def test_deliberate_host_differences(self):
        self.compare_deliberate_differences(DELIBERATE_HOST_DIFFERENCES, ours_hosts)

    # Fails if a random host file or filter gives a different result than in DeepSpeed.
    def test_random_hosts(self):
        chance = random.Random(1)
        some = lambda *choices: chance.choice(choices)
        cases = []
        for _ in range(100):
            names = chance.sample(["a", "b", "node-1", "10.0.0.1", "x_y"], chance.randint(1, 4))
            lines = [some("", "  ", "\t") + name + some(" ", "\t", "   ") + some(*["slots="] * 20, "slots=0", "slot=", "") + str(chance.randint(1, 6)) +
                     some("", "", " max_slots=9", " # mine") for name in names for _ in range(1 if chance.random() < 0.97 else 2)]
            lines = [line for part in lines for line in ([part] if chance.random() < 0.9 else ["", part, "# " + part])]
            nodes = [some(*names, "a", "z") + some("", ":" + ",".join(str(chance.randint(0, 6)) for _ in range(chance.randint(1, 4)))) for _ in range(chance.randint(1, 3))]
            text = some("@", "@", "@", "@@").join(nodes)
            include, exclude = some(("", ""), (text, ""), ("", text))
            cases.append(("\n".join(lines) + some("\n", ""), include, exclude))
        answers = theirs(cases)
        taken = 0
        for case, want in zip(cases, answers):
            # Unlike DeepSpeed, AnyAccel rejects a job without hosts; see the table.
            self.assertEqual(ours_hosts(*case), want or None, repr(case))
            taken += bool(want)
        self.assertGreater(taken, 30)

    # Fails if a core list gives a different result than in DeepSpeed.
    def test_cores(self):
        self.compare([(case,) for case in CORES], ours_cores)

    # Fails if AnyAccel or DeepSpeed no longer gives the result in the table of deliberate
    # differences.
    def test_deliberate_core_differences(self):
        self.compare_deliberate_differences([((case,), *rest) for case, *rest in DELIBERATE_CORE_DIFFERENCES], ours_cores)

    # Fails if a random core list gives a different result than in DeepSpeed.
    def test_random_cores(self):
        chance = random.Random(2)
        cases = []
        for _ in range(100):
            parts = []
            for _ in range(chance.randint(1, 5)):
                first = chance.randint(0, 99)
                parts.append(chance.choice([str(first), f"{first}-{first + chance.randint(0, 12)}", f"{first}-{chance.randint(0, 111)}"]))
            if chance.random() < 0.6:
                parts.sort(key=lambda part: int(part.split("-")[0]))
            text = ",".join(parts)
            if chance.random() < 0.2:
                place = chance.randrange(len(text) + 1)
                text = text[:place] + chance.choice(",-x") + text[place:]
            cases.append((text,))
        taken = 0
        for (text,), want in zip(cases, theirs(cases)):
            got = ours_cores(text)
            if want is None and got is not None:
                # DeepSpeed rejects unsorted or repeated numbers, which AnyAccel accepts.
                ranges = [[int(end) for end in part.split("-")] for part in text.split(",")]
                want = sorted({cpu for ends in ranges for cpu in range(ends[0], ends[-1] + 1)})
                self.assertGreater(sum(ends[-1] - ends[0] + 1 for ends in ranges), 0)
                self.assertTrue(any(after[0] <= before[-1] for before, after in zip(ranges, ranges[1:])), text)
            self.assertEqual(got, want, text)
            taken += want is not None
        self.assertGreater(taken, 50)


if __name__ == "__main__":
    if subprocess.run([PYTHON, "-c", "import deepspeed.launcher.runner"], capture_output=True).returncode:
        print("SKIP: the tests' Python has no DeepSpeed (tools/setup --deepspeed)")
        sys.exit(77)
    unittest.main()
