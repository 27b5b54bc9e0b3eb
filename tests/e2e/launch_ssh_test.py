"""Tests of `anyaccel launch` with ssh on several "hosts", which are loopback addresses of this
machine with the test's own sshd.
"""
import glob
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from launch_case import PYTHON, LaunchCase

SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


@unittest.skipUnless(SSHD and shutil.which("ssh") and shutil.which("ssh-keygen"), "requires sshd, ssh and ssh-keygen")
class LaunchSsh(LaunchCase):
    @classmethod
    def setUpClass(cls):
        cls.keys = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.keys.cleanup)
        folder = pathlib.Path(cls.keys.name)
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            cls.port = probe.getsockname()[1]
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", exist_ok=True)
        (folder / "config").write_text(f"Port {cls.port}\nListenAddress 127.0.0.1\nListenAddress 127.0.0.2\nHostKey {folder}/host\n"
                                       f"AuthorizedKeysFile {folder}/user.pub\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
                                       "PermitRootLogin yes\nMaxStartups 100\n")
        with open(folder / "log", "w") as log:
            server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "config"], stderr=log)

        def stop():
            server.terminate()
            server.wait()
        cls.addClassCleanup(stop)
        ssh = ["ssh", "-p", str(cls.port), "-i", str(folder / "user"), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
               "-o", "BatchMode=yes", "127.0.0.1", "true"]
        until = time.monotonic() + 60
        while subprocess.run(ssh, capture_output=True).returncode != 0:
            if time.monotonic() > until or server.poll() is not None:
                raise unittest.SkipTest("cannot start sshd: " + (folder / "log").read_text()[-300:])
            time.sleep(0.1)
        cls.options = (f"--ssh_port {cls.port} --launcher_args '-i {folder}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR' "
                       "--hostfile hosts --oversubscribe --master_addr 127.0.0.1 -q ")

    def setUp(self):
        super().setUp()
        self.write("hosts", "# uneven\n127.0.0.1 slots=2\n\n127.0.0.2 slots=1\n")

    def launch(self, line, **variables):
        return self.run_line("anyaccel launch " + self.options + line, **variables)

    def start(self, script):
        return self.start_line("anyaccel launch " + self.options, script, 3)

    # Fails if ranks on hosts with different numbers of slots get wrong variables, or if an argument
    # is changed.
    def test_variables_and_arguments(self):
        result = self.launch("""sh -c 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_SIZE $CROSS_RANK $CROSS_SIZE $MASTER_ADDR $1"' sh "it's  \\$HOME" """)
        self.assertEqual(sorted(result.stdout.splitlines()),
                         ["0 0 3 2 0 2 127.0.0.1 it's  $HOME", "1 1 3 2 0 2 127.0.0.1 it's  $HOME", "2 0 3 1 1 2 127.0.0.1 it's  $HOME"], result.stderr)

    # Fails if a variable from .deepspeed_env or an exported variable does not reach the other
    # hosts.
    def test_exported_variables(self):
        self.write(".deepspeed_env", "\n# mine\nMINE=a b\n")
        result = self.launch("""sh -c 'echo "$MINE $UCX_TEST $SECRET"'""", UCX_TEST="7", SECRET="x")
        self.assertEqual(result.stdout, "a b 7 \n" * 3, result.stderr)

    # Fails if the exit code of a rank on another host is lost, or if other ranks survive.
    def test_failure(self):
        process = self.start("touch up$RANK; if [ $RANK = 2 ]; then until [ -e go ]; do sleep 0.01; done; echo why >&2; exit 7; fi; trap '' TERM; sleep 1000")
        (self.folder / "go").touch()
        begin = time.monotonic()
        _, error = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 7, error)
        self.assertIn("rank 2 on 127.0.0.2 failed first: exit code 7", error)
        self.assertIn("  | why", error)
        self.assertNotIn("report", error)
        self.assert_gone_soon(begin)

    # Fails if the exit code is that of the first host to finish instead of that of the first rank
    # to fail.
    def test_first_failure(self):
        process = self.start("touch up$RANK; echo $$ > pid$RANK; until [ -e go ]; do sleep 0.01; done; case $RANK in 0) exit 9;; 1) trap '' TERM; sleep 1000;;"
                             "2) while kill -0 $(cat pid0) 2>/dev/null; do sleep 0.01; done; sleep 0.2; exit 3;; esac")
        (self.folder / "go").touch()
        _, error = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 9, error)

    # Fails if a signal to the launcher does not terminate the ranks on other hosts gracefully.
    def test_signal(self):
        process = self.start("trap 'echo saved; exit 0' TERM; touch up$RANK; while :; do sleep 0.01; done")
        process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        out, error = process.communicate(timeout=100)
        self.assertEqual((process.returncode, out), (143, "saved\n" * 3), error)
        self.assert_gone_soon(begin)

    # Fails if ranks on other hosts survive when the launcher is killed.
    def test_killed_launcher(self):
        process = self.start("(setsid sleep 1000 > /dev/null 2>&1 &); trap '' TERM; touch up$RANK; sleep 1000")
        process.kill()
        begin = time.monotonic()
        process.wait()
        self.assert_gone_soon(begin)

    # Fails if a rank survives when the sshd of one host is killed.
    def test_sshd_dies(self):
        parent = "$(cut -d' ' -f4 /proc/{}/stat)"
        script = ("touch up$RANK; if [ $RANK = 2 ]; then until [ -e go ]; do sleep 0.01; done; g=" + parent.format("$$") + "; a=" + parent.format("$g") +
                  "; kill -KILL " + parent.format("$a") + "; fi; trap '' TERM; sleep 1000")
        process = self.start(script)
        (self.folder / "go").touch()
        _, error = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 255, error)
        self.assertIn("127.0.0.2", error)
        self.assert_nothing_left()

    # Fails if the error about an unreachable host does not name the host, or if the other hosts run
    # the job without it.
    def test_unreachable(self):
        self.write("hosts", "127.0.0.1 slots=1\n127.0.0.3 slots=1\n")
        result = self.launch("sh -c 'trap \"\" TERM; sleep 1000'")
        self.assertEqual(result.returncode, 255)
        self.assertIn("127.0.0.3", result.stderr)
        self.write("hosts", "127.0.0.3 slots=1\n127.0.0.1 slots=1\n")
        result = self.launch("touch started")
        self.assertEqual(result.returncode, 1)
        self.assertIn("127.0.0.3 cannot be reached over ssh", result.stderr)
        self.assertFalse((self.folder / "started").exists())
        self.assert_nothing_left()

    # Fails if --force_multi does not use ssh for a single host.
    def test_force_multi(self):
        self.write("hosts", "127.0.0.2 slots=1\n")
        result = self.launch("--force_multi sh -c 'echo $RANK $SSH_CONNECTION'")
        self.assertIn("0 127.0.0.", result.stdout, result.stderr)

    # Fails if a rank's log file lacks the rank's output.
    def test_rank_logs(self):
        result = self.launch("--enable_each_rank_log logs sh -c 'echo out $RANK'")
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
        texts = sorted(pathlib.Path(path).read_text() for path in glob.glob(str(self.folder / "logs/*")))
        self.assertEqual(texts, ["out 0\n", "out 1\n", "out 2\n"])

    @unittest.skipUnless(subprocess.run([PYTHON, "-c", "import torch.distributed as d; raise SystemExit(not d.is_available())"],
                                        capture_output=True).returncode == 0, "the tests' Python has no torch.distributed")
    # Fails if ranks on several hosts cannot find each other through the launcher's variables.
    def test_all_reduce(self):
        self.write("reduce.py", 
            "import os, torch, torch.distributed as dist\ndist.init_process_group('gloo')\nx = torch.ones(2) * (dist.get_rank() + 1)\ndist.all_reduce(x)\n"
            "open(f'sum{os.environ[\"RANK\"]}', 'w').write(str(x.tolist()))\ndist.barrier()\ndist.destroy_process_group()\n")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        result = self.launch(f"--master_port {port} {PYTHON} reduce.py")
        self.assertEqual(result.returncode, 0, result.stderr)
        for rank in "012":
            self.assertEqual((self.folder / ("sum" + rank)).read_text(), "[6.0, 6.0]")


if __name__ == "__main__":
    unittest.main()
