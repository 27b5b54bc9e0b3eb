"""Tests of `anyaccel topology`: saved topologies, rank plans and pictures."""
import collections
import json
import os
import pathlib
import struct
import tempfile
import unittest
import xml.etree.ElementTree
import zlib

from shell import shell

MACHINES = pathlib.Path(os.environ["ANYACCEL_SOURCE_DIR"], "tests/data/topologies")


def pixels(png):
    """Return the number of pixels of each color in a PNG with 8 bits per channel and no alpha
    channel.
    """
    data, at = b"", 8
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack(">IIBB", body[:10])
            assert (depth, colours) == (8, 2), (depth, colours)
        if kind == b"IDAT":
            data += body
        at += 12 + size
    data = zlib.decompress(data)
    counts, row, stride = collections.Counter(), bytearray(3 * width), 3 * width + 1
    for y in range(height):
        kind, line = data[y * stride], bytearray(data[y * stride + 1 : (y + 1) * stride])
        for x in range(3 * width):
            left, up = (line[x - 3] if x > 2 else 0), row[x]
            corner = row[x - 3] if x > 2 else 0
            guess = left + up - corner
            nearest = min((abs(guess - v), i, v) for i, v in enumerate((left, up, corner)))[2]
            line[x] = (line[x] + (0, left, up, (left + up) // 2, nearest)[kind]) & 255
        row = line
        counts.update(bytes(line[x : x + 3]).hex() for x in range(0, 3 * width, 3))
    return counts


class Topology(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    # Fails if the plan ignores an option, or if an option is accepted only with `-` or only with
    # `_`.
    def test_plan_as_json(self):
        options = "--plan_ranks=2 --bind-core-list 0-51,56-107 --reserve_cores 2"
        done = shell(f"anyaccel topology --topology {MACHINES}/sockets_of_56.xml --json {options}")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        plan = json.loads(done.stdout)["plan"]
        self.assertEqual([rank["cores"] for rank in plan["ranks"]], [list(range(51)), list(range(56, 107))])
        self.assertEqual([rank["memory_nodes"] for rank in plan["ranks"]], [[0], [1]])
        self.assertEqual([rank["threads"] for rank in plan["ranks"]], [51, 51])
        self.assertEqual(plan["reserved"], [51, 107])
        page = pathlib.Path(os.environ["ANYACCEL_SOURCE_DIR"], "docs/reference/cli.md").read_text()
        for key in [*plan, *plan["ranks"][0]]:
            self.assertIn(f"`{key}`", page)

    # Fails if `--plan-ranks auto` does not plan one rank per memory node with cores, or if the text
    # lacks the plan.
    def test_plan_as_text(self):
        done = shell(f"anyaccel topology --xml {MACHINES}/xeon_max_flat_snc4.xml --plan-ranks auto")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank 7   CPUs 21-23, threads 3, memory preferred 15\n", done.stdout)

    # Fails if an impossible plan or an invalid argument is accepted.
    def test_rejected_command_lines(self):
        machine = f"anyaccel topology --xml {MACHINES}/one_node_8_cores.xml "
        done = shell(machine + "--plan-ranks 33")
        self.assertEqual(done.returncode, 1)
        self.assertIn("33 ranks on 8 cores", done.stderr)
        self.assertEqual(shell(machine + "--plan-ranks 33 --oversubscribe").returncode, 0)
        self.assertIn("warning: 9 ranks share 8 cores", shell(machine + "--plan-ranks 9").stdout)
        for words in ("--plan-ranks", "--plan-ranks x", "--plan-ranks -1", "--reserve-cores=1.5", "--jsn", "--json=1"):
            done = shell(machine + words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)

    # Fails if the SVG does not show each CPU in the color of its rank.
    def test_svg(self):
        done = shell(f"anyaccel topology --xml {MACHINES}/sockets_of_56.xml --plan-ranks 2 -o {self.path}/m.svg")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        root = xml.etree.ElementTree.parse(self.path / "m.svg").getroot()
        boxes = [box for box in root if box.get("class") == "pu"]
        fills = collections.Counter(box.get("fill") for box in boxes)
        self.assertEqual(sorted(fills.values()), [56, 56, 112])

    # Fails if the PNG cannot be decoded, or if it lacks the colors of the ranks.
    def test_png(self):
        line = f"anyaccel topology --xml {MACHINES}/one_node_8_cores.xml --plan-ranks 2 -o {self.path}/m"
        done = shell(line + ".png")
        if done.returncode != 0 and "cairo" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(shell(line + ".svg").returncode, 0)
        root = xml.etree.ElementTree.parse(self.path / "m.svg").getroot()
        seen = pixels((self.path / "m.png").read_bytes())
        for colour in {box.get("fill") for box in root if box.get("class") == "pu"}:
            self.assertGreater(seen[colour[1:]], 1000, colour)

    # Fails if an unknown format or an unwritable file does not give an error, or if a file is left
    # behind.
    def test_invalid_pictures(self):
        for name in ("m.jpg", "m", "missing/m.svg"):
            done = shell(f"anyaccel topology -o {self.path}/{name}")
            self.assertEqual(done.returncode, 1, name)
            self.assertIn(f"{self.path}/{name.split('/')[0]}", done.stderr)
        self.assertEqual(list(self.path.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
