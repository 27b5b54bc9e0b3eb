"""Tests of `anyaccel launch` with ssh and pdsh on three simulated hosts with separate networks,
processes, /dev/shm, /tmp and ssh servers.
"""
import os
import shutil
import signal
import threading
import time
import unittest

import hosts
from hosts import HostsTest
from launch_case import PYTHON, Jobs
from launch_output import STREAM, check_streams
from shell import BIN, wait_for

# Seconds of silence allowed on a connection. Both ends detect a lost connection within a small
# multiple of this time.
SILENCE = {"ANYACCEL_LAUNCH_SILENCE": "3"}


class OverHosts(Jobs):
    """Tests that run with every launcher. A subclass selects the launcher."""
    launcher = ""
    reduce_over = ("pairs", "hosts")
    # Variables that make the launcher's ssh client print debug messages.
    debug = {}

    def setUp(self):
        super().setUp()
        self.write("hosts", "# uneven\nhost1 slots=1\n\nhost2 slots=2\nhost3 slots=1\n")
        self.write("pairs", "host1 slots=2\nhost2 slots=2\n")
        self.variables = {"HOME": str(self.folder), "DS_ACCELERATOR": "cpu"}

    def line(self, rest, hostfile="hosts"):
        return f"anyaccel launch --launcher {self.launcher} --hostfile {hostfile} --oversubscribe -q {rest}"

    def launch(self, rest, hostfile="hosts", at=0, **variables):
        return self.hosts[at].run(self.line(rest, hostfile), cwd=self.folder, **{**self.variables, **variables})

    def start(self, script, ranks, options="", hostfile="hosts", at=0, **variables):
        """Start ranks of a shell script and return the launcher's process when all ranks are
        running.
        """
        self.write("script.sh", script)
        process = self.hosts[at].start("exec " + self.line(options + " sh script.sh", hostfile), cwd=self.folder, **{**self.variables, **variables})
        return self.started(process, ranks)

    # Fails if ranks on hosts with different numbers of slots get wrong variables, or if an argument
    # is changed.
    def test_variables_and_arguments(self):
        result = self.launch("""sh -c 'echo "$(hostname) $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_SIZE $CROSS_RANK $CROSS_SIZE $MASTER_ADDR $1"' sh "it's  \\$HOME 100%h %% %n" """)
        rest = "10.77.0.1 it's  $HOME 100%h %% %n"
        self.assertEqual(sorted(result.stdout.splitlines()),
                         [f"host1 0 0 4 1 0 3 {rest}", f"host2 1 0 4 2 1 3 {rest}", f"host2 2 1 4 2 1 3 {rest}", f"host3 3 0 4 1 2 3 {rest}"], result.stderr)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    # Fails if a variable that should be exported does not reach other hosts, or if any other
    # variable does.
    def test_exported_variables(self):
        self.write(".deepspeed_env", "\n# mine\nMINE=a b%h\n")
        result = self.launch("""sh -c 'echo "$MINE $UCX_TEST $SECRET"'""", UCX_TEST="7", SECRET="x")
        self.assertEqual(result.stdout, "a b%h 7 \n" * 4, result.stderr)

    # Fails if ranks of a C++ program on several hosts compute a wrong sum or leave shared memory
    # behind.
    def test_all_reduce(self):
        for hostfile in self.reduce_over:
            result = self.launch(f"{BIN}/all_reduce_job", hostfile)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout, "(?m)^all_reduce ok: 4 ranks on cpu, [0-9]+ correct results, ")
            self.assert_nothing_left()

    # Fails if two hosts compute different losses than one rank.
    def test_train(self):
        self.check_train("--force_multi")

    # Fails if the report of a killed rank is incomplete, or if a process survives on any host.
    def test_rank_killed(self):
        process = self.start("touch up$RANK; if [ $RANK = 2 ]; then until [ -e go ]; do sleep 0.01; done; echo why >&2; kill -KILL $$; fi;"
                             "(setsid sleep 1000 > /dev/null 2>&1 &); trap '' TERM; sleep 1000", 4)
        (self.folder / "go").touch()
        begin = time.monotonic()
        _, error = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 137, error)
        self.assertIn("rank 2 on host2 failed first: signal 9", error)
        self.assertIn("  | why", error)
        self.assertNotIn("launch report", error)
        self.assert_gone_soon(begin)

    # Fails if a signal to the launcher does not terminate the ranks on all hosts gracefully, or if
    # their last output is lost.
    def test_signal(self):
        process = self.start("trap 'echo saved; exit 0' TERM; touch up$RANK; while :; do sleep 0.01; done", 4)
        os.kill(process.inner, signal.SIGTERM)
        begin = time.monotonic()
        out, error = process.communicate(timeout=100)
        self.assertEqual((process.returncode, out), (143, "saved\n" * 4), error)
        self.assert_gone_soon(begin)

    # Fails if ranks on other hosts survive when the launcher is killed.
    def test_launcher_killed(self):
        process = self.start("(setsid sleep 1000 > /dev/null 2>&1 &); trap '' TERM; touch up$RANK; sleep 1000", 4)
        begin = time.monotonic()
        os.kill(process.inner, signal.SIGKILL)
        process.wait()
        self.assert_gone_soon(begin)

    # Fails if a job waits forever for a host whose ssh server was killed, or if that host's ranks
    # survive.
    def test_sshd_dies(self):
        self.addCleanup(self.hosts[1].start_sshd)
        process = self.start("touch up$RANK; trap '' TERM; sleep 1000", 4)
        begin = time.monotonic()
        self.hosts[1].stop_sshd()
        _, error = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 255, error)
        self.assertIn("host2 failed first: exit code 255: it cannot be reached, or its connection was lost", error)
        self.assert_gone_soon(begin)

    # Fails if a full disk on one host terminates ranks on other hosts or causes lines to be lost.
    # Also fails if it is not reported.
    def test_full_disk(self):
        logs = self.folder / "logs"
        logs.mkdir()
        self.hosts[1].small_disk(logs, 64)
        self.addCleanup(self.hosts[1].run, f"umount {logs}")
        process = self.start("touch up$RANK; if [ $(hostname) = host2 ]; then seq 30000; exit 0; fi; until [ -e go ]; do sleep 0.01; done; sleep 1; touch after$RANK", 4,
                             "--enable_each_rank_log logs")
        error = []
        reader = threading.Thread(target=lambda: error.append(process.stderr.read()))
        reader.start()
        wait_for(lambda: not self.hosts[1].processes())
        (self.folder / "go").touch()
        reader.join()
        self.assertEqual(process.wait(100), 1, error[0])
        self.assertIn("No space left on device", error[0])
        self.assertEqual(sorted(path.name for path in self.folder.glob("after*")), ["after0", "after3"])
        for rank in (1, 2):
            kept = self.hosts[1].run(f"cat {logs}/*_rank{rank}.log").stdout
            prefix = f"[rank {rank}] "
            rest = "".join(line[len(prefix):] + "\n" for line in error[0].splitlines() if line.startswith(prefix))
            self.assertEqual(kept + rest, "".join(f"{i}\n" for i in range(1, 30001)))

    # Fails if bytes of the output are lost, changed or reordered. pdsh itself loses unterminated
    # lines, and bytes after a NUL.
    def test_output(self):
        self.check_output(8)

    def check_output(self, megabytes):
        self.write("stream.py", STREAM)
        process = self.hosts[0].start("exec " + self.line(f"{PYTHON} stream.py {megabytes}"), cwd=self.folder, text=False, **self.variables)
        with process:
            self.assertEqual(check_streams(process.stdout, 4, megabytes), [])
            self.assertEqual((process.stderr.read(), process.wait()), (b"", 0))

    # Fails if a line is lost, split, or reordered within its rank while the reader is slow.
    def test_prefixed_output(self):
        self.check_prefixed_output(50000)

    def check_prefixed_output(self, count):
        process = self.hosts[0].start(f"{self.line(f'--prefix_output seq {count}')} | (sleep 1; cat)", cwd=self.folder, **self.variables)
        seen = [0] * 4
        with process:
            for line in process.stdout:
                rank = int(line[6])
                seen[rank] += 1
                if line != f"[rank {rank}] {seen[rank]}\n":
                    self.fail(f"got {line!r}, expected [rank {rank}] {seen[rank]}")
            self.assertEqual(process.stderr.read(), "")
        self.assertEqual(seen, [count] * 4)

    # Fails if the plan for a host uses CPUs of the launching host, or CPUs that the host's ssh
    # server may not use.
    def test_own_topology(self):
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            self.skipTest("requires two CPUs")
        self.hosts[1].stop_sshd()
        self.hosts[1].start_sshd(cpus=cpus[-1:])
        self.addCleanup(lambda: (self.hosts[1].stop_sshd(), self.hosts[1].start_sshd()))
        self.write("two", "host1 slots=1\nhost2 slots=1\n")
        result = self.launch("--bind_cores_to_rank sh -c 'echo $RANK $(taskset -cp $$)'", "two")
        said = dict((line.split()[0], line.split()[-1]) for line in result.stdout.splitlines())
        self.assertEqual(said["1"], str(cpus[-1]), result.stderr)
        self.assertNotEqual(said["0"], said["1"])

    # Fails if --ssh_port or --launcher_args does not reach ssh, or if one overrides the other.
    def test_arguments(self):
        result = self.launch(f"--ssh_port 2222 --launcher_args '{self.arguments}' sh -c 'echo $SSH_CONNECTION'", **self.debug)
        self.assertEqual([line.split()[-1] for line in result.stdout.splitlines()], ["2222"] * 4, result.stderr)
        self.assertIn("debug1: Connecting to host2", result.stderr)


class Cut:
    """Tests that wait for timeouts."""

    # Fails if the error about an unreachable host does not name the host, or if the other hosts run
    # the job without it.
    def test_unreachable(self):
        self.addCleanup(self.hosts[1].link, up=True)
        self.hosts[1].link(up=False)
        result = self.launch("sh -c 'trap \"\" TERM; sleep 1000'", **SILENCE)
        self.assertEqual(result.returncode, 255, result.stderr)
        self.assertIn("host2 failed first: exit code 255: it cannot be reached", result.stderr)
        self.assert_nothing_left()
        self.write("first", "host2 slots=1\nhost1 slots=1\n")
        result = self.launch("touch started", "first", **SILENCE)
        self.assertEqual(result.returncode, 1)
        self.assertIn("host2 cannot be reached over ssh", result.stderr)
        self.assertFalse((self.folder / "started").exists())

    # Fails if the job hangs or ranks survive after a host loses its network. A lost network does
    # not close connections.
    def test_cut_off(self):
        self.check_cut_off("", "trap '' TERM; sleep 1000")

    def check_cut_off(self, options, work):
        process = self.start(f"touch up$RANK; if [ $RANK = 1 ]; then {work}; fi; sleep 1000", 4, options, **SILENCE)
        reader = threading.Thread(target=lambda: [None for _ in process.stdout])
        reader.start()
        self.addCleanup(self.hosts[1].link, up=True)
        self.hosts[1].link(up=False)
        error = process.stderr.read()
        self.assertEqual(process.wait(100), 255, error)
        self.assertIn("host2 failed first: exit code 255", error)
        reader.join()
        self.assert_nothing_left()


class CutLong(Cut):
    """More tests that wait for timeouts. They are too slow to run every time."""

    # Fails if ranks on the disconnected host survive while one of them prints endlessly, so that
    # writing blocks.
    def test_cut_off_with_output(self):
        self.check_cut_off("--prefix_output", "exec yes")

    # Fails if the launcher or ranks on other hosts run forever after the launcher's host loses its
    # network.
    def test_launcher_cut_off(self):
        self.addCleanup(self.hosts[2].link, up=True)
        process = self.start("touch up$RANK; sleep 1000", 4, hostfile="pairs", at=2, **SILENCE)
        self.hosts[2].link(up=False)
        _, error = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 255, error)
        self.assert_nothing_left()

    # Fails if the silence of ranks that print nothing is mistaken for a lost connection.
    def test_silent_ranks(self):
        result = self.launch("sh -c 'sleep 8; echo done'", **SILENCE)
        self.assertEqual((result.returncode, result.stdout), (0, "done\n" * 4), result.stderr)


class Ssh(Cut, OverHosts, HostsTest):
    launcher = "ssh"
    arguments = "-v"


@unittest.skipUnless(shutil.which("pdsh"), "pdsh is not installed")
class Pdsh(OverHosts, HostsTest):
    launcher = "pdsh"
    reduce_over = ("pairs",)
    arguments = "-l root"
    debug = {"PDSH_SSH_ARGS_APPEND": "-v  -o LogLevel=DEBUG1", "PDSH_CONNECT_TIMEOUT": "20", "PDSH_RCMD_TYPE": "rsh"}

    # Fails if the error about a missing pdsh does not name it.
    def test_not_installed(self):
        folder = self.folder / "bin"
        folder.mkdir()
        for name in ("anyaccel", "ssh", "sh"):
            (folder / name).symlink_to(shutil.which(name, path=self.hosts.environment({})["PATH"]))
        result = self.hosts[0].run(f"PATH={folder} {self.line('true')}", cwd=self.folder, **self.variables)
        self.assertEqual(result.returncode, 1)
        self.assertIn("pdsh, which is not in PATH", result.stderr)


if __name__ == "__main__":
    hosts.main()
