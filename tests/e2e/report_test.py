"""Tests of `anyaccel report`: the selected accelerator and the reason, as text and as JSON, even if
no accelerator can be selected.
"""
import fcntl
import json
import os
import re
import struct
import subprocess
import termios
import unittest

from shell import shell


def report(**variables):
    done = shell("anyaccel report --json", **variables)
    return done, json.loads(done.stdout)


class Report(unittest.TestCase):
    # Fails if a key that programs read is missing or has the wrong type.
    def test_json_schema(self):
        done, data = report()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIsInstance(data["accelerator"], str)
        self.assertTrue(data["reason"])
        for backend in data["backends"]:
            self.assertEqual(set(backend), {"name", "verdict", "reason", "device_count"})
            self.assertIn(backend["verdict"], ("available", "unavailable"))
            self.assertTrue(backend["reason"], backend)
        self.assertEqual(data["problems"], [])
        self.assertTrue({"anyaccel", "libtorch", "libtorch_built_with", "libtorch_accelerator", "compiler"} <= set(data["versions"]))
        self.assertGreater(len(data["devices"]), 0)
        for device in data["devices"]:
            self.assertGreater(device["total_memory"], 0)
            self.assertLessEqual(device["available_memory"], device["total_memory"])
            self.assertEqual(set(device["dtypes"]["float32"]), {"storable", "computable", "fast", "reducible"})
            self.assertTrue(device["dtypes"]["float32"]["computable"])
        for key in ("communication_backend", "compile_backend", "op_builders", "environment", "topology", "host"):
            self.assertIn(key, data)
        self.assertGreater(data["memory"]["rss"], 1 << 20)
        self.assertEqual(data["shared_memory"]["path"], "/dev/shm")
        self.assertGreater(data["topology"]["cores"], 0)

    # Fails if OpenMP threads spin longer than the limit that AnyAccel sets, or if a user's setting
    # is overridden.
    def test_spinning_is_limited(self):
        for given, expected in (({}, "'5000'"), ({"GOMP_SPINCOUNT": "77"}, "'77'")):
            shown = shell("anyaccel report", OMP_DISPLAY_ENV="verbose", **given).stderr
            if "GOMP_SPINCOUNT" not in shown:
                self.skipTest("this LibTorch does not use libgomp")
            self.assertIn("GOMP_SPINCOUNT = " + expected, shown)

    # Fails if a key of the report is not documented.
    def test_every_key_is_documented(self):
        _, data = report()
        with open(os.path.join(os.environ["ANYACCEL_SOURCE_DIR"], "docs/reference/cli.md"), encoding="utf-8") as file:
            page = file.read()
        for key in [*data, *data["versions"], *data["devices"][0], *data["topology"], *data["memory"]["limits"]]:
            self.assertIn(f"`{key}`", page)

    # Fails if the selected backend is not among those reported as available.
    def test_chosen_is_available(self):
        _, data = report()
        verdicts = {b["name"]: b["verdict"] for b in data["backends"]}
        self.assertGreaterEqual(len(verdicts), 2)
        self.assertEqual(verdicts[data["accelerator"]], "available")

    # Fails if the text disagrees with the JSON report, or if a line is longer than 100 columns.
    def test_text(self):
        _, data = report()
        done = shell("anyaccel report")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, rf"(?m)^accelerator +{data['accelerator']}$")
        for backend in data["backends"]:
            self.assertRegex(done.stdout, rf"(?m)^\*? +{backend['name']} +{backend['verdict']}")
        for title in ("Backends", "Devices", "Data types", "Host", "Environment", "Versions"):
            self.assertRegex(done.stdout, rf"(?m)^{title}")
        wide = [line for line in done.stdout.splitlines() if len(line) > 100 and " " in line.strip()[40:]]
        self.assertEqual(wide, [])

    # Fails if a line is wider than the terminal.
    def test_width_of_the_terminal(self):
        main, side = os.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        with subprocess.Popen([os.environ["ANYACCEL_PROGRAM"], "report"], stdout=side) as process:
            os.close(side)
            text = b""
            try:
                while chunk := os.read(main, 65536):
                    text += chunk
            except OSError:  # the program has closed its end
                pass
        os.close(main)
        self.assertEqual(process.returncode, 0)
        lines = text.decode().splitlines()
        self.assertGreater(len(lines), 30)
        self.assertEqual([line for line in lines if len(line) > 80 and " " in line.strip()], [])

    # Fails if DS_ACCELERATOR does not take precedence, or if the reason does not mention the
    # variable.
    def test_named_accelerator(self):
        done, data = report(DS_ACCELERATOR="cpu")
        self.assertEqual((done.returncode, data["accelerator"]), (0, "cpu"))
        self.assertIn("DS_ACCELERATOR", data["reason"])
        self.assertEqual(data["environment"]["DS_ACCELERATOR"], "cpu")

    # Fails if an unknown accelerator is accepted, or if the error does not list the registered
    # names.
    def test_unknown_accelerator(self):
        done, data = report(DS_ACCELERATOR="gpu9000")
        self.assertEqual((done.returncode, data["accelerator"]), (1, None))
        self.assertIn("gpu9000", data["reason"])
        for backend in data["backends"]:
            self.assertIn(backend["name"], data["reason"])
        text = shell("anyaccel report", DS_ACCELERATOR="gpu9000")
        self.assertEqual(text.returncode, 1)
        self.assertIn("gpu9000", text.stdout)

    # Fails if selecting an accelerator that cannot run falls back to a different accelerator, or if
    # the reason is lost.
    def test_unavailable_accelerator(self):
        _, data = report()
        absent = [b for b in data["backends"] if b["verdict"] == "unavailable"]
        if not absent:
            self.skipTest("every accelerator of this build is available")
        for backend in absent:
            done, named = report(DS_ACCELERATOR=backend["name"])
            self.assertEqual((done.returncode, named["accelerator"]), (1, None), backend["name"])
            self.assertIn(backend["reason"], named["reason"])

    # Fails if ANYACCEL_STRICT allows the fallback to the CPU, or if it rejects an available device.
    def test_strict(self):
        _, data = report()
        done, strict = report(ANYACCEL_STRICT="1")
        if data["accelerator"] == "cpu":
            self.assertEqual((done.returncode, strict["accelerator"]), (1, None))
            self.assertIn("ANYACCEL_STRICT", strict["reason"])
        else:
            self.assertEqual((done.returncode, strict["accelerator"]), (0, data["accelerator"]))
        # Selecting the CPU by name is not a fallback.
        self.assertEqual(report(ANYACCEL_STRICT="1", DS_ACCELERATOR="cpu")[0].returncode, 0)

    # Fails if an invalid value of ANYACCEL_STRICT is accepted.
    def test_strict_with_invalid_value(self):
        done, data = report(ANYACCEL_STRICT="maybe")
        self.assertEqual((done.returncode, data["accelerator"]), (1, None))
        self.assertIn("ANYACCEL_STRICT", data["reason"])

    # Fails if the report omits variables that affect results.
    def test_environment_is_shown(self):
        _, data = report(OMP_NUM_THREADS="1", ANYACCEL_LOG_LEVEL="error")
        self.assertEqual(data["environment"]["OMP_NUM_THREADS"], "1")
        self.assertEqual(data["environment"]["ANYACCEL_LOG_LEVEL"], "error")
        self.assertEqual(data["host"]["threads"], 1)

    # Fails if the reported stack limit is not that of the shell.
    def test_limits(self):
        done = shell("ulimit -S -s 4096 && anyaccel report --json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["memory"]["limits"]["stack"], 4096 * 1024)

    # Fails if `anyaccel topology` fails or reports no cores.
    def test_topology(self):
        done = shell("anyaccel topology --json && anyaccel topology")
        self.assertEqual(done.returncode, 0, done.stderr)
        machine, _ = json.JSONDecoder().raw_decode(done.stdout)
        self.assertGreater(len(machine["cores"]), 0)
        self.assertRegex(done.stdout, re.compile(r"^packages \d+, cores \d+", re.MULTILINE))

    # Fails if the error about an unreadable topology file does not name it.
    def test_topology_of_a_missing_file(self):
        done = shell("anyaccel topology --xml /nonexistent/machine.xml")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent/machine.xml", done.stderr)


if __name__ == "__main__":
    unittest.main()
