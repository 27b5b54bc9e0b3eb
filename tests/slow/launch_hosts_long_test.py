"""The long tests of tests/e2e/launch_hosts_test.py: more network failures, also with pdsh, and
hundreds of megabytes of output.
"""
import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(os.environ["ANYACCEL_SOURCE_DIR"]) / "tests/e2e"))
import hosts
import launch_hosts_test as short


class SshCut(short.CutLong, short.Ssh):
    pass


class PdshCut(short.CutLong, short.Pdsh):
    pass


class MuchOutput:
    # Fails if a byte of hundreds of megabytes from several hosts is lost or reordered.
    def test_output(self):
        self.check_output(100)

    # Fails if a line of hundreds of megabytes from several hosts is lost or reordered.
    def test_prefixed_output(self):
        self.check_prefixed_output(2000000)


class SshOutput(MuchOutput, short.OverHosts, hosts.HostsTest):
    launcher = "ssh"


@unittest.skipUnless(shutil.which("pdsh"), "pdsh is not installed")
class PdshOutput(MuchOutput, short.OverHosts, hosts.HostsTest):
    launcher = "pdsh"


def load_tests(loader, *_):
    """Load only the tests that tests/e2e/launch_hosts_test.py does not run."""
    long = loader.getTestCaseNames(short.CutLong)
    names = [(PdshCut, name) for name in long] + [(SshCut, name) for name in long if not hasattr(short.Ssh, name)]
    names += [(kind, name) for kind in (SshOutput, PdshOutput) for name in loader.getTestCaseNames(MuchOutput)]
    return unittest.TestSuite(kind(name) for kind, name in names)


if __name__ == "__main__":
    hosts.main()
