"""Tests of the program itself: help, version, invalid command lines, pipes, and running from any
folder.
"""
import os
import re
import shutil
import tempfile
import unittest

from shell import BIN, shell


class Command(unittest.TestCase):
    # Fails if the help lacks a command, or if it loads LibTorch. Loading LibTorch takes 200 ms, but
    # the help may take only 20 ms.
    def test_help_lists_commands_without_libtorch(self):
        done = shell("LD_DEBUG=files anyaccel --help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("libanyaccel_base", done.stderr)
        self.assertNotIn("libtorch", done.stderr)
        for word in ("Usage: anyaccel", "report", "topology", "help", "DS_ACCELERATOR"):
            self.assertIn(word, done.stdout)

    # Fails if a command is not documented.
    def test_every_command_is_documented(self):
        commands = re.findall(r"(?m)^  ([a-z]+)  +[A-Z]", shell("anyaccel --help").stdout.split("Options:")[0])
        self.assertIn("report", commands)
        with open(os.path.join(os.environ["ANYACCEL_SOURCE_DIR"], "docs/reference/cli.md"), encoding="utf-8") as file:
            page = file.read()
        for command in commands:
            self.assertIn(f"| `{command}` |" if command != "help" else "help", page)

    # Fails if `help X` does not show X's options.
    def test_help_of_a_command(self):
        done = shell("anyaccel help report && anyaccel report --help")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("--json"), 2)
        for line in ("anyaccel help help", "anyaccel help", "anyaccel -h"):
            self.assertEqual(shell(line).stdout, shell("anyaccel --help").stdout, line)
        self.assertEqual(shell("anyaccel help nothing").returncode, 2)

    # Fails if --version prints anything but one line that scripts can parse.
    def test_version(self):
        done = shell("anyaccel --version && anyaccel report --version")
        self.assertRegex(done.stdout, r"^anyaccel \d+\.\d+\.\d+\nanyaccel \d+\.\d+\.\d+\n$")

    # Fails if a mistyped command gets no suggestion, or if the exit code is not 2.
    def test_unknown_command_suggests_the_nearest(self):
        done = shell("anyaccel reprot")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("did you mean 'report'?", done.stderr)

    # Fails if an unknown command that resembles no known one gets a suggestion.
    def test_unknown_command_without_suggestion(self):
        done = shell("anyaccel xyzzyplugh")
        self.assertEqual(done.returncode, 2)
        self.assertIn('unknown command "xyzzyplugh"', done.stderr)
        self.assertNotIn("did you mean", done.stderr)

    # Fails if running the program without a command is not reported as an error.
    def test_missing_command(self):
        done = shell("anyaccel")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no command was given", done.stderr)

    # Fails if an unknown option is ignored, before or after the command.
    def test_unknown_option(self):
        for line, option in (("anyaccel --colour report", "--colour"), ("anyaccel report --xml", "--xml")):
            done = shell(line)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertIn(f'unknown option "{option}"', done.stderr)
        self.assertIn('unknown option "--jsn"', shell("anyaccel report --jsn 3 4").stderr)
        for line, told in (("anyaccel report --jsn", "did you mean '--json'?\nTry 'anyaccel report --help'."), ("anyaccel topology --plan_rank 2", "did you mean '--plan-ranks'?\nTry 'anyaccel topology --help'."),
                           ("anyaccel ops list --bakend cpu", "did you mean '--backend'?\nTry 'anyaccel ops --help'."), ("anyaccel generate --modle x", "did you mean '--model'?"),
                           ("anyaccel --log-levl debug report", "did you mean '--log-level'?\nTry 'anyaccel --help'.")):
            self.assertIn(told, shell(line).stderr, line)
        self.assertIn("more", shell("anyaccel report more").stderr)

    # Fails if an invalid log level is accepted, or if a valid one is rejected.
    def test_log_level(self):
        for line in ("anyaccel --log-level loud report", "anyaccel report --log-level loud"):
            done = shell(line)
            self.assertEqual(done.returncode, 2, line)
            self.assertIn("error, warning, info or debug", done.stderr)
        self.assertIn("--log-level requires a level", shell("anyaccel --log-level").stderr)
        for line in ("anyaccel --log-level debug report", "anyaccel report --log-level=debug", "anyaccel report --log_level error",
                     "anyaccel topology --log-level debug --json", "anyaccel topology --log_level=error"):
            self.assertEqual(shell(line).returncode, 0, line)
        self.assertEqual(shell("anyaccel topology --log-level loud").returncode, 2)

    # Fails if the program prints an error or hangs when the reader closes the pipe.
    def test_closed_pipe(self):
        done = shell("anyaccel report | head -n 1; anyaccel --help | true; trap '' PIPE; anyaccel report --json | true")
        self.assertEqual(done.stderr, "")
        self.assertEqual(len(done.stdout.splitlines()), 1)

    # Fails if the exit code is 0 although the output could not be written.
    def test_full_or_closed_standard_output(self):
        for line in ("anyaccel --help >/dev/full", "anyaccel report >/dev/full", "anyaccel report --json >&-"):
            done = shell(line)
            self.assertEqual(done.returncode, 1, line)
            self.assertIn("standard output", done.stderr, line)

    # Fails if the program searches for its libraries relative to the current folder or to argv[0].
    def test_any_folder_and_symlink(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(os.path.join(BIN, "anyaccel"), os.path.join(folder, "aa"))
            for line in ("./aa report --json", "PATH=$PWD:$PATH aa report --json", "exec -a elsewhere ./aa report --json"):
                done = shell(line, cwd=folder)
                self.assertEqual(done.returncode, 0, done.stderr)

    # Fails if a missing library of the program causes a crash or a loader message instead of a
    # clear error.
    def test_missing_module(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(folder + "/bin")
            shutil.copy(os.path.join(BIN, "anyaccel"), folder + "/bin")
            done = shell(f"LD_LIBRARY_PATH=$(dirname {BIN})/lib {folder}/bin/anyaccel report")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("anyaccel: error: [report] libanyaccel_cli.so", done.stderr)
        self.assertIn(folder, done.stderr)

    # Fails if the error about an invalid library does not name the file.
    def test_broken_module(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(folder + "/bin")
            shutil.copy(os.path.join(BIN, "anyaccel"), folder + "/bin")
            with open(folder + "/bin/libanyaccel_cli.so", "w", encoding="ascii") as file:
                file.write("not a library")
            done = shell(f"LD_LIBRARY_PATH=$(dirname {BIN})/lib {folder}/bin/anyaccel report")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\[report\] .*cannot be loaded: .*libanyaccel_cli\.so")


if __name__ == "__main__":
    unittest.main()
