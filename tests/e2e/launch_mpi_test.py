"""Tests of `anyaccel launch` with the MPI launchers that are installed on this machine."""
import collections
import contextlib
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import slurm
from launch_case import PYTHON, LaunchCase

# A program that calls the MPI library through ctypes. MPI_COMM_WORLD is an integer or an address,
# depending on the implementation.
PROGRAM = """
import ctypes, os, sys
name, world = sys.argv[1:]
mpi = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
world = ctypes.c_int(0x44000000) if world == 'number' else ctypes.byref(ctypes.c_char.in_dll(mpi, 'ompi_mpi_comm_world'))
assert mpi.MPI_Init(None, None) == 0
rank, size = ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank)), mpi.MPI_Comm_size(world, ctypes.byref(size))
assert mpi.MPI_Barrier(world) == 0
os.write(1, f"{os.environ['RANK']} {rank.value} of {size.value}\\n".encode())
assert mpi.MPI_Finalize() == 0
"""


class Runner:
    """Tests that run with every MPI launcher. A subclass selects the launcher."""
    runner = library = world = None
    more = {}

    def setUp(self):
        super().setUp()
        self.variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **self.more}
        plan = self.run_line(f"anyaccel launch --launcher {self.runner} --num_accelerators 1 --dry_run true")
        if "is not in PATH on this host" in plan.stdout:
            self.skipTest(f"{self.runner} is not installed (tools/setup --mpi)")
        self.launch = f"anyaccel launch -q --launcher {self.runner} --num_accelerators 3 --oversubscribe "

    def start(self, script):
        return self.start_line(self.launch, script, 3)

    # Fails if a rank gets another rank's variables, or if an argument or variable is changed.
    def test_variables_and_arguments(self):
        self.write(".deepspeed_env", "MINE=a, \"b\"; it's $HOME\n")
        result = self.run_line(self.launch + """sh -c 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_SIZE $CROSS_RANK $CROSS_SIZE $MASTER_ADDR <$MINE> <$PYTHONTEST> <$1> <$2>"' """
                               """sh "it's  \\$HOME" "" """, PYTHONTEST="two\nlines")
        rest = "127.0.0.1 <a, \"b\"; it's $HOME> <two\nlines> <it's  $HOME> <>\n"
        for rank in range(3):
            self.assertIn(f"{rank} {rank} 3 3 0 1 {rest}", result.stdout, result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)

    # Fails if the program does not run as a process of the MPI job.
    def test_mpi_program(self):
        self.write("mpi.py", PROGRAM)
        library = self.library or os.path.join(os.path.dirname(shutil.which("mpiexec.hydra", path=self.variables["PATH"])), "../lib/libmpi.so.12")
        if not os.path.isabs(library) and subprocess.run([PYTHON, "-c", f"import ctypes; ctypes.CDLL('{library}')"], capture_output=True).returncode:
            self.skipTest(f"{library} is not installed")
        result = self.run_line(self.launch + f"--no_local_rank mpi.py {library} {self.world}")
        self.assertEqual(sorted(result.stdout.splitlines()), ["0 0 of 3", "1 1 of 3", "2 2 of 3"], result.stderr)

    # Fails if ranks of a C++ program cannot find each other through the launcher's variables.
    def test_all_reduce(self):
        result = self.run_line(self.launch + "all_reduce_job")
        # oneCCL prints this warning if it is installed.
        done = [line for line in result.stdout.splitlines() if "CCL_WARN" not in line]
        self.assertEqual((result.returncode, len(done)), (0, 1), result.stdout + result.stderr)

    # Fails if the exit code of a failed rank is replaced by that of the MPI launcher, or if ranks
    # survive.
    def test_failure(self):
        for end, code, words in (("exit 7", 7, "exit code 7"), ("kill -KILL $$", 137, "signal 9"), ("kill -SEGV $$", 139, "signal 11")):
            process = self.start(f"touch up$RANK; if [ $RANK = 2 ]; then until [ -e go ]; do sleep 0.01; done; echo why >&2; {end}; fi; trap '' TERM; sleep 1000")
            (self.folder / "go").touch()
            begin = time.monotonic()
            _, error = process.communicate(timeout=100)
            self.assertEqual(process.returncode, code, error)
            self.assertIn(f"rank 2 on localhost failed: {words}", error)
            self.assertIn(f"rank 2 failed first: {words}", error)
            self.assertIn("  | why", error)
            self.assertNotIn("report", error)
            self.assert_gone_soon(begin)
            for path in glob.glob(str(self.folder / "up*")) + [self.folder / "go"]:
                os.remove(path)

    # Fails if the exit code is not that of the rank that failed first.
    def test_first_failure(self):
        process = self.start("touch up$RANK; echo $$ > pid$RANK; until [ -e go ]; do sleep 0.01; done; case $RANK in 2) exit 9;; 1) trap '' TERM; sleep 1000;;"
                             "0) while kill -0 $(cat pid2) 2>/dev/null; do sleep 0.01; done; trap '' TERM; sleep 0.2; exit 3;; esac")
        (self.folder / "go").touch()
        _, error = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 9, error)

    # Fails if a signal to the launcher does not reach the ranks, or if they get no time to shut
    # down gracefully.
    def test_signal(self):
        process = self.start("trap 'sleep 1.5; echo saved $RANK; exit 0' TERM; touch up$RANK; while :; do sleep 0.01; done")
        process.send_signal(signal.SIGTERM)
        begin = time.monotonic()
        out, error = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 143, error)
        for rank in range(3):
            self.assertIn(f"saved {rank}\n", out, error)
        self.assert_gone_soon(begin)

    # Fails if a rank or its daemon survives when the launcher is killed.
    def test_killed_launcher(self):
        process = self.start("(setsid sleep 1000 > /dev/null 2>&1 &); trap '' TERM; touch up$RANK; sleep 1000")
        process.kill()
        begin = time.monotonic()
        process.wait()
        self.assert_gone_soon(begin)

    # Fails if ranks survive when the MPI launcher is killed, or if its death is reported as
    # success.
    def test_killed_runner(self):
        process = self.start("(setsid sleep 1000 > /dev/null 2>&1 &); trap '' TERM; touch up$RANK; sleep 1000")
        for number, _ in self.left():
            # Find the guard's child, which is the launcher's grandchild.
            try:
                parent = int(pathlib.Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[1])
                above = int(pathlib.Path(f"/proc/{parent}/stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if above == process.pid:
                runner = number
        os.kill(runner, signal.SIGKILL)
        begin = time.monotonic()
        _, error = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 137, error)
        self.assert_gone_soon(begin)

    # Fails if the rank of a killed agent survives, or if other ranks continue without it.
    def test_killed_agent(self):
        process = self.start("trap '' TERM; (setsid sleep 1000 > /dev/null 2>&1 &); echo $(cut -d' ' -f4 /proc/$(cut -d' ' -f4 /proc/$$/stat)/stat) > agent$RANK; touch up$RANK; sleep 1000")
        os.kill(int((self.folder / "agent1").read_text()), signal.SIGKILL)
        begin = time.monotonic()
        _, error = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 137, error)
        self.assert_gone_soon(begin)

    # Fails if ranks do not run on the planned cores, for example because MPI rebinds them.
    def test_binding(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("requires two CPUs")
        options = f"anyaccel launch -q --launcher {self.runner} --num_accelerators 2 --bind_cores_to_rank "
        plan = json.loads(self.run_line(options + "--dry_run --json true").stdout)
        self.assertEqual(plan["runner"]["command"][-2:], ["--rank_agent", self.runner])
        line = options + """python3 -c "import os; os.write(1, f\\"{os.environ['RANK']} {sorted(os.sched_getaffinity(0))}\\n\\".encode())" """
        result = self.run_line(line)
        self.assertEqual(sorted(result.stdout.splitlines()), [f"{rank['rank']} {rank['cores']}" for rank in plan["ranks"]], result.stderr)

    # Fails if an output option does not reach the agents, or if lines are lost or split.
    def test_output(self):
        # Open MPI forwards output in blocks of 4096 bytes, which may end within a line.
        result = self.run_line(self.launch + "--prefix_output seq 100")
        for rank in range(3):
            lines = [line for line in result.stdout.splitlines() if line.startswith(f"[rank {rank}] ")]
            self.assertEqual(lines, [f"[rank {rank}] {i}" for i in range(1, 101)])
        result = self.run_line(self.launch + "sh -c 'yes $RANK | head -200000; yes $RANK | head -200000 >&2' | (sleep 0.5; cat)")
        # On a busy machine, Open MPI's blocks may split lines, and srun adds its own messages to
        # standard error.
        for text, extra in ((result.stdout, 0), (result.stderr, 2000)):
            characters = collections.Counter(text)
            for letter in "012":
                self.assertLessEqual(200000, characters[letter])
                self.assertLessEqual(characters[letter], 200000 + extra)
            self.assertLessEqual(600000, characters["\n"])
            self.assertLessEqual(len(text), 1200000 + extra)
        result = self.run_line(self.launch + "--log_level info --save_pid --enable_each_rank_log logs sh -c 'echo out $RANK; echo err $RANK >&2'")
        pid = re.search(r"(?m)^anyaccel: info: launch: launcher pid: ([0-9]+), stored in ", result.stderr)[1]
        self.assertEqual(result.stdout, "")
        self.assertNotIn("err", result.stderr)
        self.assertFalse(os.path.exists(f"/tmp/{pid}.deepspeed"))
        for rank in range(3):
            found, = glob.glob(str(self.folder / f"logs/*_rank{rank}.log"))
            self.assertEqual(pathlib.Path(found).read_text(), f"out {rank}\nerr {rank}\n")

    # Fails if every rank reports an impossible job, instead of the launcher reporting it once.
    def test_rejected_command_lines(self):
        for line, words in ((self.launch + "no-such-program", "the program 'no-such-program' is not in PATH"),
                            (f"anyaccel launch --launcher {self.runner} --num_accelerators 4000 true", "--oversubscribe")):
            result = self.run_line(line)
            self.assertEqual((result.returncode, result.stderr.count(words)), (1, 1), result.stderr)


class OpenMPI(Runner, LaunchCase):
    runner, library, world = "openmpi", "libmpi.so.40", "address"

    # Fails if a root user cannot follow the error's advice to pass
    # --launcher_args=--allow-run-as-root.
    @unittest.skipUnless(os.geteuid() == 0, "only root is rejected by mpirun")
    def test_root(self):
        result = self.run_line(self.launch + "true", OMPI_ALLOW_RUN_AS_ROOT="")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--launcher_args=--allow-run-as-root", result.stderr)
        result = self.run_line(self.launch + "--launcher_args=--allow-run-as-root true", OMPI_ALLOW_RUN_AS_ROOT="")
        self.assertEqual(result.returncode, 0, result.stderr)


class MPICH(Runner, LaunchCase):
    runner, library, world = "mpich", "libmpich.so.12", "number"


class IntelMPI(Runner, LaunchCase):
    # The test finds the library next to Intel MPI's programs, so `library` is not set.
    runner, world = "impi", "number"


@unittest.skipUnless(os.geteuid() == 0, "starting Slurm requires root")
class Slurm(Runner, LaunchCase):
    """A Slurm installation with one node. The test chooses its own ports and key."""
    runner = "slurm"

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        ports = []
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                probe = stack.enter_context(socket.socket())
                probe.bind(("127.0.0.1", 0))
                ports.append(probe.getsockname()[1])
        host = socket.gethostname().split(".")[0]
        own = cls.own = slurm.Slurm(folder.name, folder.name, [(host, "127.0.0.1")], ports)
        cls.more = own.variables
        for words in own.servers(host):
            server = subprocess.Popen(words, env={**os.environ, **cls.more}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            cls.addClassCleanup(server.wait)
            cls.addClassCleanup(server.terminate)
        until = time.monotonic() + 60
        while subprocess.run(own.states(), env={**os.environ, **cls.more}, capture_output=True, text=True).stdout != "idle\n":
            if time.monotonic() > until:
                raise unittest.SkipTest("cannot start Slurm: " + own.logs())
            time.sleep(0.1)

    def why_not_up(self):
        return self.own.logs()

    def test_mpi_program(self):
        self.skipTest("Slurm does not provide MPI")


if __name__ == "__main__":
    unittest.main()
