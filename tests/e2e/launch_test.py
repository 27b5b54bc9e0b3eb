"""Tests of `anyaccel launch` as users run it, in a real shell."""
import glob
import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

from launch_case import PYTHON, LaunchCase

LAUNCH = "anyaccel launch -q --num_accelerators 2 "


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch.distributed as d; raise SystemExit(not d.is_available())"], capture_output=True).returncode == 0


class Launch(LaunchCase):
    def start(self, script, *options):
        return self.start_line(" ".join(["anyaccel launch --num_accelerators 2", *options]), script, 2)

    # Fails if a rank lacks a variable that scripts for DeepSpeed or torchrun read.
    def test_variables(self):
        names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE LOCAL_SIZE CROSS_RANK CROSS_SIZE MASTER_ADDR DS_ACCELERATOR"
        result = self.run_line(LAUNCH + f"""sh -c 'out=; for n in {names}; do eval "out=\\"\\$out\\$$n \\""; done; test $MASTER_PORT -gt 0 && echo "$out"'""")
        self.assertEqual(sorted(result.stdout.splitlines()), ["0 0 2 2 2 0 1 127.0.0.1 cpu ", "1 1 2 2 2 0 1 127.0.0.1 cpu "], result.stderr)

    # Fails if the program's arguments are split, extended or parsed by the launcher.
    def test_arguments(self):
        result = self.run_line(LAUNCH + """printf '<%s>' "a b" --log_level error --num_gpus "" """)
        self.assertEqual(result.stdout, "<a b><--log_level><error><--num_gpus><>" * 2, result.stderr)

    # Fails if a script written for `deepspeed`, or for torchrun with --no_local_rank, does not run
    # unchanged.
    def test_python_programs(self):
        self.write("ds.py", "import argparse, os, sys\np = argparse.ArgumentParser()\np.add_argument('--local_rank', type=int, default=-1)\n"
                   "p.add_argument('--x')\na = p.parse_args()\nassert a.local_rank == int(os.environ['LOCAL_RANK']) and a.x == '1'\nsys.stdout.write('ok\\n')\n")
        self.write("tr.py", "import sys\nassert sys.argv[1:] == ['--x', '1'], sys.argv\nsys.stdout.write('ok\\n')\n")
        for line in ("ds.py", "--module ds", "--no_local_rank tr.py", "--no_local_rank --module tr", "--no_python " + PYTHON + " tr.py"):
            result = self.run_line(LAUNCH + line + " --x 1")
            self.assertEqual((result.returncode, result.stdout), (0, "ok\nok\n"), line + result.stderr)

    # Fails if --venv_script does not determine which Python runs.
    def test_virtual_environment(self):
        (self.folder / "bin").mkdir()
        self.write("bin/python", "#!/bin/sh\necho mine $*\n")
        (self.folder / "bin/python").chmod(0o755)
        self.write("activate", f"PATH={self.folder}/bin:$PATH\n")
        self.write("a.py", "")
        result = self.run_line("anyaccel launch -q --num_accelerators 1 --venv_script activate a.py x")
        self.assertEqual(result.stdout, "mine -u a.py --local_rank=0 x\n", result.stderr)

    # Fails if the launcher does not return the exit code of the failed rank, or if the summary
    # lacks the rank's last output.
    def test_exit_codes(self):
        for script, code, words in (("exit 3", 3, "exit code 3"), ("kill -KILL $$", 137, "signal 9"), ("kill -ABRT $$", 134, "signal 6")):
            result = self.run_line(LAUNCH + f"""sh -c 'if [ $RANK = 1 ]; then echo why >&2; {script}; fi; sleep 1000'""")
            self.assertEqual(result.returncode, code)
            self.assertIn(f"rank 1 on localhost failed first: {words}", result.stderr)
            self.assertIn("  | why", result.stderr)
        self.assertEqual(self.run_line(LAUNCH + "true").returncode, 0)
        self.assertEqual(self.left(), [])

    # Fails if an invalid command line is accepted, or if ranks start before the error is detected.
    def test_rejected_command_lines(self):
        self.write("one", "localhost slots=1\n")
        self.write("names", "localhost slots=O4,two\n")
        for line, code, words in ((LAUNCH + "no-such-program", 1, "the program 'no-such-program' is not in PATH"),
                                  (LAUNCH + "./none.py", 1, "the file ./none.py does not exist"),
                                  ("anyaccel launch", 2, "no program was given"),
                                  ("anyaccel launch --autotuning run a.py", 2, "--autotuning is not supported"),
                                  ("anyaccel launch --hostfile none true", 1, "none"),
                                  ("anyaccel launch --num_accelerators 4000 true", 1, "--oversubscribe"),
                                  ("DS_ACCELERATOR=nonsense anyaccel launch true", 1, "'nonsense'"),
                                  ("anyaccel launch --include other true", 1, "'other'"),
                                  ("anyaccel launch --hostfile one --num_accelerators 2 true", 1, "--oversubscribe"),
                                  ("anyaccel launch --hostfile names true", 1, "cpu has only numbered devices")):
            result = self.run_line(line)
            self.assertEqual(result.returncode, code, line + result.stderr)
            self.assertIn(words, result.stderr)
            self.assertEqual(result.stdout, "")

    # Fails if the error about an unknown option lacks a suggestion or the reference to the help.
    def test_unknown_options(self):
        for words, told in (("--num_acelerators 2", "did you mean '--num_accelerators'?"), ("--nproc_per_node 2", "that is torchrun's; use --num_accelerators N"),
                            ("--nnodes=2", "that is torchrun's; use --num_nodes N with --hostfile")):
            result = self.run_line(f"anyaccel launch {words} true")
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertEqual(result.stderr, f"anyaccel: error: launch: unknown option \"{words.split()[0]}\"; {told}\nTry 'anyaccel launch --help'.\n")

    # Fails if an empty value, for example from an unset variable in a script, does not select the
    # default, as it does in DeepSpeed.
    def test_empty_values(self):
        result = self.run_line("anyaccel launch -q --hostfile '' --include '' --exclude '' --master_addr '' --num_accelerators 1 echo ok")
        self.assertEqual((result.returncode, result.stdout), (0, "ok\n"), result.stderr)

    # Fails if a job with more ranks than cores, which torchrun allows, is rejected or starts
    # without a warning. Also fails if the upper limit or --oversubscribe has no effect.
    def test_more_ranks_than_cores(self):
        machine = f"--topology {os.environ['ANYACCEL_SOURCE_DIR']}/tests/data/topologies/one_node_8_cores.xml"
        plan = json.loads(self.run_line(f"anyaccel launch --dry_run --json {machine} --num_accelerators 32 true").stdout)
        self.assertEqual((len(plan["ranks"]), len(plan["warnings"])), (32, 1))
        self.assertIn("32 ranks share 8 cores", plan["warnings"][0])
        self.assertIn("--oversubscribe", self.run_line(f"anyaccel launch --dry_run {machine} --num_accelerators 33 true").stderr)
        self.assertEqual(self.run_line(f"anyaccel launch --dry_run {machine} --num_accelerators 33 --oversubscribe true").returncode, 0)
        cores = len(json.loads(self.run_line("anyaccel topology --json").stdout)["cores"])
        result = self.run_line(f"anyaccel launch --log_level warning --num_accelerators {cores + 1} sh -c 'echo $RANK'")
        self.assertEqual(sorted(map(int, result.stdout.split())), list(range(cores + 1)), result.stderr)
        self.assertIn(f"warning: launch: {cores + 1} ranks share", result.stderr)

    # Fails if lines of different ranks interleave. Unbuffered Python writes each argument of
    # print() and the newline separately.
    def test_lines_do_not_interleave(self):
        self.write("print.py", "import os, sys, time\nrank = os.environ['RANK']\nopen('up' + rank, 'w').close()\n"
                   "while not (os.path.exists('up0') and os.path.exists('up1')): pass\n"
                   "for i in range(300):\n    print('rank', rank, 'line', i, '\\u00e4' * 20, file=sys.stderr if i % 2 else sys.stdout)\n    time.sleep(0.0005)\n")
        for redirect in ("", "2>&1"):
            result = self.run_line(LAUNCH + f"--no_local_rank print.py {redirect}")
            self.assertEqual(result.returncode, 0, result.stderr)
            for rank in "01":
                lines = [line for line in (result.stdout + result.stderr).splitlines() if line.startswith(f"rank {rank} ")]
                self.assertEqual(sorted(lines), sorted(f"rank {rank} line {i} " + "\u00e4" * 20 for i in range(300)))
            for up in self.folder.glob("up*"):
                up.unlink()

    # Fails if ranks see no terminal although the launcher has one, or if their output is changed.
    def test_ranks_see_terminal(self):
        code = ("import os, pty, sys\npid, fd = pty.fork()\n"
                "if pid == 0: os.execvp('anyaccel', ['anyaccel', 'launch', '-q', '--num_accelerators', '2', 'sh', '-c', "
                "'if [ -t 1 ]; then printf \"terminal \"; stty size <&1; fi'])\n"
                "out = b''\n"
                "try:\n  while data := os.read(fd, 4096): out += data\nexcept OSError: pass\n"
                "print(out, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")
        self.write("terminal.py", code)
        result = self.run_line(f"{PYTHON} terminal.py")
        self.assertEqual(result.stdout, str(b"terminal 0 0\r\n" * 2) + " 0\n", result.stderr)

    # Fails if ranks survive a signal to the launcher, or if they get no time to shut down
    # gracefully.
    def test_signals(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("trap 'echo saved; exit 0' INT TERM; (setsid sleep 1000 &); touch up$RANK; while :; do sleep 0.01; done")
            process.send_signal(number)
            begin = time.monotonic()
            out, error = process.communicate(timeout=100)
            self.assertEqual((process.returncode, out), (128 + number, "saved\nsaved\n"), error)
            self.assert_gone_soon(begin)
            for path in glob.glob(str(self.folder / "up*")):
                os.remove(path)

    # Fails if a rank or its daemon survives when the launcher is killed.
    def test_killed_launcher(self):
        process = self.start("trap '' INT TERM HUP; (setsid sh -c '(sleep 1000 &)' &); touch up$RANK; sleep 1000")
        process.kill()
        begin = time.monotonic()
        process.wait()
        self.assert_gone_soon(begin)

    # Fails if daemons of the ranks survive when the launcher's process group is killed.
    def test_killed_group(self):
        process = self.start("(setsid sh -c '(sleep 1000 &)' &); touch up$RANK; sleep 1000")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.assert_nothing_left()

    # Fails if Ctrl-C on a terminal reaches ranks twice: from the terminal and from the launcher.
    def test_terminal(self):
        script = self.write("count.sh", "n=0; trap 'n=$((n+1)); echo $n >> n$RANK' INT; touch up$RANK; i=0; while [ $i -lt 50 ]; do sleep 0.01; i=$((i+1)); done; exit 0")
        code = ("import os, pty, sys, glob, time\npid, fd = pty.fork()\n"
                "if pid == 0: os.execvp('anyaccel', ['anyaccel', 'launch', '-q', '--num_accelerators', '2', 'sh', sys.argv[1]])\n"
                "while len(glob.glob('up*')) < 2: time.sleep(0.005)\n"
                "os.write(fd, b'\\x03')\n"
                "try:\n  while os.read(fd, 4096): pass\nexcept OSError: pass\n"
                "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")
        result = self.run_line(f"{PYTHON} -c \"{code}\" {script}")
        self.assertEqual(result.stdout, "130\n", result.stderr)
        for rank in "01":
            self.assertEqual((self.folder / ("n" + rank)).read_text(), "1\n")

    # Fails if lines are lost or mixed while the reader is slow, or if a line lacks its prefix.
    def test_prefixed_output(self):
        result = self.run_line(LAUNCH + "--prefix_output seq 30000 | (sleep 0.2; cat)")
        for rank in "01":
            lines = [line for line in result.stdout.splitlines() if line.startswith(f"[rank {rank}] ")]
            self.assertEqual(lines, [f"[rank {rank}] {i}" for i in range(1, 30001)])

    # Fails if a rank's log file lacks output, or if the error about an unusable folder does not
    # name it.
    def test_rank_logs(self):
        result = self.run_line(LAUNCH + "--enable_each_rank_log logs sh -c 'echo out $RANK; echo err $RANK >&2'")
        self.assertEqual((result.stdout, result.stderr), ("", ""))
        for rank in "01":
            found, = glob.glob(str(self.folder / f"logs/*_rank{rank}.log"))
            self.assertEqual(pathlib.Path(found).read_text(), f"out {rank}\nerr {rank}\n")
        self.write("file", "")
        result = self.run_line(LAUNCH + "--enable_each_rank_log file true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot create the --enable_each_rank_log folder file: ", result.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "mounting a small disk requires root")
    # Fails if lines are lost when the disk of the log files is full, or if this is not reported.
    def test_full_disk(self):
        logs = self.folder / "logs"
        logs.mkdir()
        line = (f"unshare -m sh -c 'mount -t tmpfs -o size=64k none logs && anyaccel launch -q --num_accelerators 1 --enable_each_rank_log logs seq 30000; echo rc $?;"
                " cat logs/*'")
        result = self.run_line(line)
        if "unshare" in result.stderr or "mount" in result.stderr:
            self.skipTest(result.stderr.strip())
        self.assertIn("No space left on device", result.stderr)
        self.assertIn("rc 1\n", result.stdout)
        kept = result.stdout.split("rc 1\n")[1]
        rest = "".join(line[len("[rank 0] "):] + "\n" for line in result.stderr.splitlines() if line.startswith("[rank 0] "))
        self.assertEqual(kept + rest, "".join(f"{i}\n" for i in range(1, 30001)))

    # Fails if the plan lacks a field or has a wrong value.
    def test_dry_run(self):
        self.write(".deepspeed_env", "# mine\n\nMINE=x y\n")
        result = self.run_line("anyaccel launch --dry-run --json --num_accelerators 2 --oversubscribe --bind_cores_to_rank --master_port 1234 a.py -x")
        plan = json.loads(result.stdout)
        self.assertEqual([rank["rank"] for rank in plan["ranks"]], [0, 1])
        for rank in plan["ranks"]:
            self.assertEqual(set(rank) & {"rank", "local_rank", "host", "device", "cores", "memory_nodes", "env", "command"},
                             {"rank", "local_rank", "host", "device", "cores", "memory_nodes", "env", "command"})
            self.assertEqual(rank["env"]["MINE"], "x y")
            self.assertEqual(rank["env"]["MASTER_PORT"], "1234")
            self.assertEqual(rank["command"][1:], ["-u", "a.py", f"--local_rank={rank['local_rank']}", "-x"])
            self.assertTrue(rank["cores"])
        text = self.run_line("anyaccel launch --dry-run --num_accelerators 1 true").stdout
        self.assertIn("rank 0: localhost", text)

    # Fails if a host file, a filter or --no_ssh selects the wrong ranks.
    def test_hosts(self):
        self.write("hosts", "# two\na slots=2\nb slots=1\n")
        result = self.run_line("anyaccel launch --dry-run --json --hostfile hosts --no_ssh --node_rank 1 true")
        rank, = json.loads(result.stdout)["ranks"]
        self.assertEqual((rank["rank"], rank["host"], rank["env"]["WORLD_SIZE"], rank["env"]["MASTER_ADDR"], rank["env"]["MASTER_PORT"], rank["env"]["CROSS_RANK"]),
                         (2, "b", "3", "a", "29500", "1"))
        result = self.run_line("anyaccel launch --dry-run --json --hostfile hosts --include a:1 true")
        rank, = json.loads(result.stdout)["ranks"]
        self.assertEqual((rank["device"], rank["env"]["WORLD_SIZE"]), ("1", "1"))
        result = self.run_line("anyaccel launch --hostfile hosts --launcher mvapich true")
        self.assertEqual(result.returncode, 1)
        self.assertIn("the program for --launcher mvapich was not found", result.stderr)

    # Fails if planning 500 hosts takes more than a second. The documented limit is 0.1 s, but the
    # machine may be busy.
    def test_many_hosts(self):
        self.write("hosts", "".join(f"node{i} slots=4\n" for i in range(500)))
        times = []
        for _ in range(5):
            begin = time.monotonic()
            result = self.run_line("anyaccel launch --dry-run --json --oversubscribe --bind_cores_to_rank --hostfile hosts true")
            times.append(time.monotonic() - begin)
        self.assertEqual(len(json.loads(result.stdout)["ranks"]), 2000, result.stderr)
        self.assertLess(min(times), 1)

    # Fails if the accelerator's visible-devices variable is ignored or not set, or if another
    # accelerator's is set.
    def test_visible_devices(self):
        (self.folder / "root/dev").mkdir(parents=True)
        for i in range(3):
            self.write(f"root/dev/davinci{i}", "")
        root = {"ANYACCEL_DEVICE_ROOT": str(self.folder / "root"), "DS_ACCELERATOR": "npu"}
        show = "sh -c 'echo $LOCAL_RANK of $ASCEND_RT_VISIBLE_DEVICES $CUDA_VISIBLE_DEVICES'"
        result = self.run_line("anyaccel launch -q " + show, **root, CUDA_VISIBLE_DEVICES="")
        self.assertEqual(sorted(result.stdout.splitlines()), ["0 of 0,1,2", "1 of 0,1,2", "2 of 0,1,2"], result.stderr)
        result = self.run_line("anyaccel launch -q --num_gpus 1 " + show, **root, CUDA_VISIBLE_DEVICES="", ASCEND_RT_VISIBLE_DEVICES="1,2")
        self.assertEqual(result.stdout, "0 of 1\n", result.stderr)
        result = self.run_line("anyaccel launch -q --include localhost:2 " + show, **root, CUDA_VISIBLE_DEVICES="", ASCEND_RT_VISIBLE_DEVICES="1,2")
        self.assertEqual(result.stdout, "0 of 2\n", result.stderr)
        # Ascend's library hides all devices if the list is not in ascending order.
        result = self.run_line("anyaccel launch -q " + show, **root, ASCEND_RT_VISIBLE_DEVICES="2,1")
        self.assertIn("has no devices here", result.stderr)
        self.assertIn("--num_accelerators exceeds the slots of", self.run_line("anyaccel launch --num_gpus 4 true", **root).stderr)

    @unittest.skipUnless(has_torch(), "the tests' Python has no torch.distributed")
    # Fails if ranks of a Python program cannot find each other through the launcher's variables.
    def test_all_reduce(self):
        self.write("reduce.py", "import os, torch, torch.distributed as dist\ndist.init_process_group('gloo')\nx = torch.ones(3) * (dist.get_rank() + 1)\n"
                   "dist.all_reduce(x)\nopen(f'sum{os.environ[\"RANK\"]}', 'w').write(str(x.tolist()))\ndist.barrier()\ndist.destroy_process_group()\n")
        result = self.run_line(LAUNCH + "--oversubscribe --no_local_rank reduce.py")
        self.assertEqual(result.returncode, 0, result.stderr)
        for rank in "01":
            self.assertEqual((self.folder / ("sum" + rank)).read_text(), "[3.0, 3.0, 3.0]")

    # Fails if ranks of a C++ program cannot find each other through the launcher's variables, if
    # they compute a wrong sum, or if an installed oneCCL prints a warning to standard output.
    def test_all_reduce_program(self):
        for ranks in (2, 3):
            result = self.run_line(f"anyaccel launch -q --oversubscribe --num_accelerators {ranks} all_reduce_job")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout, f"^all_reduce ok: {ranks} ranks on cpu, [0-9]+ correct results, shared memory: [^\n]+\n$")

    # Fails if ranks do not run on the planned cores.
    def test_binding(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("requires two CPUs")
        plan = json.loads(self.run_line("anyaccel launch --dry-run --json --num_accelerators 2 --oversubscribe --bind_cores_to_rank true").stdout)
        line = LAUNCH + """--oversubscribe --bind_cores_to_rank python3 -c "import os; os.write(1, f\\"{os.environ['RANK']} {sorted(os.sched_getaffinity(0))}\\n\\".encode())" """
        result = self.run_line(line)
        self.assertEqual(sorted(result.stdout.splitlines()), [f"{rank['rank']} {rank['cores']}" for rank in plan["ranks"]], result.stderr)


if __name__ == "__main__":
    unittest.main()
