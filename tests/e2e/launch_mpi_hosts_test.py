"""Tests of `anyaccel launch` with MPI's launchers on three simulated hosts with separate networks,
processes, /dev/shm, /tmp and ssh servers.
"""
import os
import signal
import time
import unittest

import hosts
import slurm
from hosts import HostsTest
from launch_case import PYTHON, Jobs
from shell import BIN, wait_for


class OverHosts(Jobs):
    """Tests that run with every MPI launcher. They start on host1, which is not the first in the
    host file. A subclass selects the launcher.
    """
    runner = ""
    silence = {}
    more = {}

    def setUp(self):
        super().setUp()
        self.write("hosts", "host2 slots=2\nhost1 slots=1\n# uneven\nhost3 slots=1\n")
        self.write("pairs", "host1 slots=2\nhost2 slots=2\n")
        self.variables = {"HOME": str(self.folder), "DS_ACCELERATOR": "cpu", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                          "PATH": os.pathsep.join([BIN, os.path.dirname(PYTHON), os.environ["PATH"], "/usr/sbin", "/sbin"]), **self.more}
        plan = self.launch("--dry_run true")
        if "is not in PATH on this host" in plan.stdout:
            self.skipTest(f"{self.runner} is not installed (tools/setup --mpi)")

    def line(self, rest, hostfile="hosts"):
        return f"anyaccel launch --launcher {self.runner} --hostfile {hostfile} --oversubscribe -q {rest}"

    def launch(self, rest, hostfile="hosts", **variables):
        return self.hosts[0].run(self.line(rest, hostfile), cwd=self.folder, **{**self.variables, **variables})

    def start(self, script):
        """Start four ranks of a shell script and return the launcher's process when all ranks are
        running.
        """
        self.write("script.sh", script)
        process = self.hosts[0].start("exec " + self.line("sh script.sh"), cwd=self.folder, **self.variables)
        return self.started(process, 4)

    # Fails if ranks are not placed as in the host file, or if an argument or variable is changed.
    def test_variables_and_arguments(self):
        self.write(".deepspeed_env", "MINE=a, \"b\"; it's $HOME\n")
        result = self.launch("""sh -c 'echo "$(hostname) $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_SIZE $CROSS_RANK $CROSS_SIZE $MASTER_ADDR $MASTER_PORT <$MINE> <$PYTHONTEST> <$1> <$2>"' """
                             """sh "it's  \\$HOME" "" """, PYTHONTEST="two\nlines")
        rest = "host2 29500 <a, \"b\"; it's $HOME> <two\nlines> <it's  $HOME> <>\n"
        for line in ("host2 0 0 4 2 0 3 ", "host2 1 1 4 2 0 3 ", "host1 2 0 4 1 1 3 ", "host3 3 0 4 1 2 3 "):
            self.assertIn(line + rest, result.stdout.replace("\r", ""), result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_nothing_left()

    # Fails if ranks of a C++ program on several hosts compute a wrong sum or leave shared memory
    # behind.
    def test_all_reduce(self):
        for hostfile in ("pairs", "hosts"):
            result = self.launch(f"{BIN}/all_reduce_job", hostfile)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout, "all_reduce ok: 4 ranks on cpu, [0-9]+ correct results, ")
            self.assert_nothing_left()

    # Fails if two hosts compute different losses than one rank.
    def test_train(self):
        self.check_train()

    # Fails if the exit code of a rank on another host is lost, or if a process survives on any
    # host.
    def test_failure(self):
        for end, code, words in (("exit 7", 7, "exit code 7"), ("kill -KILL $$", 137, "signal 9")):
            process = self.start(f"touch up$RANK; if [ $RANK = 3 ]; then until [ -e go ]; do sleep 0.01; done; echo why >&2; {end}; fi;"
                                 "(setsid sleep 1000 > /dev/null 2>&1 &); trap '' TERM; sleep 1000")
            self.write("go", "")
            begin = time.monotonic()
            _, error = process.communicate(timeout=100)
            self.assertEqual(process.returncode, code, error)
            self.assertIn(f"rank 3 on host3 failed: {words}", error)
            self.assertIn(f"rank 3 failed first: {words}", error)
            self.assertIn("  | why", error)
            self.assert_gone_soon(begin)
            for path in [*self.folder.glob("up*"), self.folder / "go"]:
                path.unlink()

    # Fails if a signal to the launcher does not reach the ranks on all hosts, or if they get no
    # time to shut down gracefully.
    def test_signal(self):
        process = self.start("trap 'sleep 1.5; touch saved$RANK; exit 0' TERM; touch up$RANK; while :; do sleep 0.01; done")
        os.kill(process.inner, signal.SIGTERM)
        begin = time.monotonic()
        _, error = process.communicate(timeout=100)
        self.assertEqual((process.returncode, len(list(self.folder.glob("saved*")))), (143, 4), error)
        self.assert_gone_soon(begin)

    # Fails if a process on any host survives when the launcher is killed.
    def test_killed_launcher(self):
        process = self.start("(setsid sleep 1000 > /dev/null 2>&1 &); trap '' TERM; touch up$RANK; sleep 1000")
        os.kill(process.inner, signal.SIGKILL)
        begin = time.monotonic()
        process.communicate(timeout=100)
        self.assert_gone_soon(begin)

    # Fails if a process survives when the MPI launcher is killed, or if its death is reported as
    # success.
    def test_killed_runner(self):
        process = self.start("(setsid sleep 1000 > /dev/null 2>&1 &); trap '' TERM; touch up$RANK; sleep 1000")
        guard = hosts.child_of(process.inner)
        os.kill(hosts.child_of(guard), signal.SIGKILL)
        begin = time.monotonic()
        _, error = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 137, error)
        self.assert_gone_soon(begin)

    # Fails if an unreachable host is reported as success, or if ranks on other hosts survive.
    def test_unreachable(self):
        self.write("hosts", "host1 slots=1\nhost9 slots=1\n")
        result = self.launch("sh -c 'trap \"\" TERM; sleep 1000'", **self.silence)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("host9", result.stdout + result.stderr)
        self.assert_nothing_left()

    # Fails if ranks are bound according to the launching host's topology instead of that of their
    # own host.
    def test_binding(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("requires two CPUs")
        self.write("hosts", "host2 slots=2\n")
        result = self.launch("""--bind_cores_to_rank python3 -c "import os; os.write(1, f\\"{os.environ['RANK']} {len(os.sched_getaffinity(0))} {os.environ['OMP_NUM_THREADS']}\\n\\".encode())" """)
        share = len(os.sched_getaffinity(0)) // 2
        self.assertEqual(len(result.stdout.split()), 6, result.stderr)
        for line in result.stdout.splitlines():
            rank, cores, threads = map(int, line.split())
            self.assertEqual(cores, threads)
            self.assertLessEqual(cores, share + 1)


class OpenMPI(OverHosts, HostsTest):
    runner = "openmpi"

    # Fails if the launcher or a rank keeps running after a host loses its network. On its own, Open
    # MPI takes 8 minutes to notice the loss.
    def test_cut_off(self):
        self.variables["ANYACCEL_LAUNCH_SILENCE"] = "5"
        process = self.start("trap '' TERM; touch up$RANK; sleep 1000")
        self.addCleanup(self.hosts[1].link, up=True)
        # TCP sends no keepalives while data is unacknowledged, so Open MPI would notice only after
        # 15 minutes. Wait until all data is acknowledged.
        wait_for(lambda: all(line.split()[2] == "0" for host in self.hosts for line in host.run("ss -Htn").stdout.splitlines()))
        self.hosts[1].link(up=False)
        begin = time.monotonic()
        _, error = process.communicate(timeout=100)
        # Open MPI's exit code for a lost daemon. With --quiet, the message does not name the host.
        self.assertEqual(process.returncode, 205, error)
        self.assertRegex(error, r"mpirun\S* failed first: exit code 205")
        self.assert_gone_soon(begin)


class MPICH(OverHosts, HostsTest):
    runner = "mpich"

    # Without a limit, mpiexec of MPICH 4.0 runs forever when its ssh cannot reach a host.
    silence = {"ANYACCEL_LAUNCH_SILENCE": "5"}


class IntelMPI(OverHosts, HostsTest):
    runner = "impi"


class Slurm(OverHosts, HostsTest):
    """A Slurm installation with the controller on self.hosts[0], which is not the first host in the
    host file, and a daemon on each host.
    """
    runner = "slurm"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        own = slurm.Slurm(cls.share, "/run/slurm", [(host.name, host.address) for host in cls.hosts], (6817, 6818))
        cls.more = own.variables
        for host in cls.hosts:
            host.check("mkdir", "-m", "755", "/run/slurm")
            for words in own.servers(host.name):
                host.serve(words, **own.variables)
        ready = "idle\n" * len(list(cls.hosts))
        try:
            wait_for(lambda: cls.hosts[0].run(" ".join(own.states()), **own.variables).stdout == ready, 60)
        except AssertionError:
            raise unittest.SkipTest("cannot start Slurm: " + cls.hosts[0].run("tail -n 3 /run/slurm/slurm*.log").stdout) from None

    # Fails if a host that Slurm does not know is reported as success.
    def test_unreachable(self):
        self.write("hosts", "host1 slots=1\nhost9 slots=1\n")
        result = self.launch("true")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("node", result.stdout + result.stderr)
        self.assert_nothing_left()


if __name__ == "__main__":
    hosts.main()
