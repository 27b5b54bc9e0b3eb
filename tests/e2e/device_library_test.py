"""Tests of ANYACCEL_DEVICE_LIBRARY: the command line drives a device that a foreign library adds to torch."""
import json
import os
import unittest

from shell import shell

LIBRARY = os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "lib/libfake_vendor.so")


def report(**variables):
    done = shell("anyaccel report --json", **{"ANYACCEL_DEVICE_LIBRARY": LIBRARY, "DS_ACCELERATOR": "", **variables})
    return done, json.loads(done.stdout)


class DeviceLibrary(unittest.TestCase):
    # Fails if the command line falls back to the CPU although the library adds a device, or if the
    # report does not name the backend that drives it.
    def test_device_is_chosen(self):
        done, data = report(FAKE_VENDOR="foreign")
        self.assertEqual((done.returncode, done.stderr, data["accelerator"]), (0, "", "foreign"))
        self.assertIn("driven by the generic backend", data["reason"])
        self.assertEqual([device["name"] for device in data["devices"]], ["foreign:0", "foreign:1"])
        self.assertEqual(data["problems"], [])

    # Fails if a device type that Python code usually names cannot be named, or if it gets a name by
    # accident.
    def test_unnamed_device_type(self):
        done, data = report(FAKE_VENDOR="", ANYACCEL_DEVICE_NAME="mycard")
        self.assertEqual((done.stderr, data["accelerator"]), ("", "mycard"))
        done, data = report(FAKE_VENDOR="")
        self.assertRegex(done.stderr, r"^anyaccel: warning: ANYACCEL_DEVICE_LIBRARY adds no device: .*set ANYACCEL_DEVICE_NAME\n$")
        self.assertEqual(data["accelerator"], "cpu")

    # Fails if a library that cannot be loaded or adds nothing is ignored silently.
    def test_useless_library(self):
        for library, reason in (("/nonexistent/lib.so", "/nonexistent/lib.so"), (LIBRARY, "does not register a device with torch")):
            done, data = report(ANYACCEL_DEVICE_LIBRARY=library)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn("ANYACCEL_DEVICE_LIBRARY adds no device", done.stderr)
            self.assertIn(reason, done.stderr)
            self.assertEqual(data["accelerator"], "cpu")

    # Fails if a device that does not report its memory cannot be described, or if the same problem
    # is listed for each device.
    def test_device_without_memory_queries(self):
        done, data = report(FAKE_VENDOR="foreign", FAKE_VENDOR_MINIMAL_ALLOCATOR="1")
        self.assertEqual((done.returncode, data["accelerator"]), (0, "foreign"))
        self.assertIsNone(data["devices"][1]["total_memory"])
        self.assertEqual(len(data["problems"]), 1, data["problems"])
        self.assertIn("its allocator does not implement it", data["problems"][0])


if __name__ == "__main__":
    unittest.main()
