"""Simulated hosts on this machine, for multi-host tests.

Each host has its own network address, name, processes, /dev/shm, /tmp and ssh server, which are
created with Linux namespaces. All hosts are in an outer namespace, whose first process reads a pipe
from the test. When the test ends for any reason, this process exits, and the kernel kills all
processes and removes all mounts in the namespace. The real machine is not changed.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from shell import BIN, wait_for

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PROGRAMS = ("unshare", "nsenter", "ip", "mount", "sshd", "ssh", "ssh-keygen")
KINDS = ("--net", "--uts", "--mount", "--ipc", "--pid")
NEW = ["unshare", *KINDS, "--fork", "--kill-child", "--mount-proc", "sh", "-ec"]
# First process of a namespace. It runs until end-of-file on standard input, and reaps orphans.
STAY = "echo up; exec env --ignore-signal=CHLD cat > /dev/null 2>&1"
WORLD = "ip link set lo up; ip link add name net type bridge; ip link set net up; " + STAY
# The host's own /tmp hides the real /tmp, so shared folders in the real /tmp are mounted again.
HOST = """name=$1; address=$2; files=$3; shift 3
echo "$name" > /proc/sys/kernel/hostname
mount -t tmpfs -o mode=755 none /etc/ssh
cp -p "$files"/ssh/* /etc/ssh/
for file in hosts shadow; do mount --bind "$files/$file" /etc/$file; done
mount -t tmpfs -o mode=755 none /run
mkdir /run/sshd /run/real
mount --bind /tmp /run/real
for folder in /tmp /dev/shm; do mount -t tmpfs -o mode=1777 none $folder; done
if [ -d ~root/.ssh ]; then mount -t tmpfs -o mode=700 none ~root/.ssh; fi
if [ -e ~root/.bashrc ]; then mount --bind /dev/null ~root/.bashrc; fi
for folder; do
  case $folder in /tmp/*) mkdir -p "$folder"; mount --bind "/run/real/${folder#/tmp/}" "$folder";; esac
done
umount /run/real
ip link set lo up
""" + STAY


def why_not():
    """Return the reason why simulated hosts cannot be created on this machine, or an empty string
    if they can.
    """
    if os.geteuid() != 0:
        return "simulated hosts require root"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    if missing:
        return "simulated hosts require " + ", ".join(missing)
    done = subprocess.run(["unshare", *KINDS, "--fork", "--mount-proc", "sh", "-ec", "ip link add name one type veth peer name two; mount -t tmpfs none /mnt"],
                          env={**os.environ, "PATH": PATH}, capture_output=True, text=True)
    return "namespaces cannot be created: " + done.stderr.strip() if done.returncode else ""


def stat(process):
    """Return the state and the parent of a process, or (None, 0) if it has exited. In
    /proc/PID/stat, the name in parentheses may contain any character.
    """
    try:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return fields[0], int(fields[1])
    except OSError:
        return None, 0


def numbers():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def child_of(process):
    """Wait until `process` has a child and return the child's id."""
    found = []
    wait_for(lambda: found.extend(one for one in numbers() if stat(one)[1] == process) or found)
    return found[0]


def in_namespace(namespace):
    """Return the live processes in a PID namespace. The PIDs are as seen from outside the namespace."""
    out = []
    for process in numbers():
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{process}/ns/pid") == namespace and stat(process)[0] not in (None, "Z", "X"):
                out.append(process)
    return out


def call(*words, **options):
    done = subprocess.run(words, env={**os.environ, "PATH": PATH}, capture_output=True, text=True, stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


class Host:
    """A host: `name`, `address`, and `init`, the id of its first process outside the host's
    namespace.
    """

    def __init__(self, hosts, number):
        self.hosts, self.number = hosts, number
        self.name, self.address = f"host{number}", f"10.77.0.{number}"
        self.server = None
        self.servers = set()
        self.holder = hosts.begin(["nsenter", "--target", str(hosts.init), *KINDS, "--", *NEW, HOST, "sh", self.name, self.address, str(hosts.files),
                                   *map(str, hosts.shared)])
        # The process tree is nsenter, unshare, and then the host's first process.
        self.init = child_of(child_of(self.holder.pid))
        self.processes_namespace = os.readlink(f"/proc/{self.init}/ns/pid")
        hosts.network("ip", "link", "add", "name", self.name, "type", "veth", "peer", "name", "eth0", "netns", str(self.init))
        hosts.network("ip", "link", "set", self.name, "master", "net", "up")
        self.check("ip", "address", "add", self.address + "/24", "dev", "eth0")
        self.check("ip", "link", "set", "eth0", "up")

    def words(self, words, cwd="/"):
        """Return the command that runs `words` on the host."""
        return ["nsenter", "--target", str(self.init), *KINDS, "--", "sh", "-c", 'cd "$0" && exec "$@"', str(cwd), *words]

    def check(self, *words):
        return call(*self.words(words))

    def run(self, line, cwd="/", timeout=150, **variables):
        """Run a bash command line on the host and return a CompletedProcess."""
        return subprocess.run(self.words(["bash", "-c", line], cwd), env=self.hosts.environment(variables), stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=timeout)

    def start(self, line, cwd="/", **variables):
        """Start a bash command line on the host in its own session and return a Popen.

        Its attribute `inner` is the process ID of bash, as seen outside the host. To get the ID of
        a program instead, begin the line with `exec`.
        """
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
        options.update((name, variables.pop(name)) for name in list(variables) if name in (*options, "errors"))
        process = subprocess.Popen(self.words(["bash", "-c", line], cwd), env=self.hosts.environment(variables), **options)
        process.inner = child_of(process.pid)
        return process

    def start_sshd(self, cpus=None):
        """Start the ssh server. With `cpus`, the server and its children may use only these CPUs.
        """
        words = [shutil.which("sshd", path=PATH), "-D", "-e", "-f", "/etc/ssh/sshd_config"]
        if cpus:
            words = ["taskset", "-c", ",".join(map(str, cpus)), *words]
        with open(self.hosts.files / (self.name + ".log"), "a", encoding="utf-8") as log:
            self.server = subprocess.Popen(self.words(words), env={"PATH": PATH}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

        def answers():
            if self.server.poll() is not None:
                raise RuntimeError("sshd ended: " + self.log())
            return self.run(f"ssh -o ConnectTimeout=60 {self.name} true").returncode == 0
        wait_for(answers)

    def log(self):
        """Return the log of the host's ssh servers."""
        return (self.hosts.files / (self.name + ".log")).read_text(errors="replace")

    def stop_sshd(self):
        """Kill the server and all its connections."""
        while servers := [one for one in in_namespace(self.processes_namespace) if self.is_sshd(one)]:
            for process in servers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        if self.server:
            self.server.wait()

    @staticmethod
    def is_sshd(process):
        with contextlib.suppress(OSError):
            return os.path.basename(os.readlink(f"/proc/{process}/exe")).startswith("sshd")
        return False

    def serve(self, words, **variables):
        """Start a server that runs until the host is removed. processes() does not list it."""
        self.servers.add(os.path.basename(os.path.realpath(words[0])))
        process = subprocess.Popen(self.words(words), env=self.hosts.environment(variables), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        self.hosts.stack.callback(process.wait)
        self.hosts.stack.callback(process.kill)

    def is_own(self, process):
        """Return whether a process belongs to the host itself: its first process, sshd, or a server
        started by serve().
        """
        with contextlib.suppress(OSError):
            return process == self.init or self.is_sshd(process) or os.path.basename(os.readlink(f"/proc/{process}/exe")) in self.servers
        return False

    def processes(self):
        """Return the command lines of all processes except those of the host itself."""
        out = []
        for process in in_namespace(self.processes_namespace):
            if not self.is_own(process):
                with contextlib.suppress(OSError):
                    # The command line of an exiting process is empty.
                    if line := pathlib.Path(f"/proc/{process}/cmdline").read_text(errors="replace").replace("\0", " ").strip():
                        out.append(line)
        return out

    def end_processes(self):
        """Kill the processes that processes() lists."""
        for process in in_namespace(self.processes_namespace):
            if not self.is_own(process):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def shared_memory(self):
        """Return the names of the files in the host's /dev/shm."""
        return os.listdir(pathlib.Path("/proc", str(self.init), "root", "dev", "shm"))

    def link(self, up):
        """Connect the host to the network (`up`) or disconnect it without closing connections."""
        self.hosts.network("ip", "link", "set", self.name, "up" if up else "down")

    def small_disk(self, folder, kilobytes):
        """Mount a file system of `kilobytes` KiB on a folder of this host."""
        self.check("mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(folder))


class Hosts:
    """A context manager that creates several hosts.

    All hosts see the folders in `shared` under the same path, as on a network file system. The
    build and test folders are always shared, and so is everything outside /tmp, /run and /dev/shm.
    """

    def __init__(self, *shared, count=3):
        self.shared = [os.environ["ANYACCEL_SOURCE_DIR"], os.environ["ANYACCEL_BUILD_DIR"], os.path.dirname(os.path.dirname(os.environ["ANYACCEL_TEST_PYTHON"])), *shared]
        self.count = count
        self.hosts = []
        self.stack = contextlib.ExitStack()

    def __enter__(self):
        with self.stack:
            self.files = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
            self.make_files()
            self.world = self.begin([*NEW, WORLD])
            self.init = child_of(self.world.pid)
            for number in range(1, self.count + 1):
                self.hosts.append(Host(self, number))
            for host in self.hosts:
                host.start_sshd()
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()
        for host in self.hosts:
            host.server.wait()

    def __getitem__(self, index):
        return self.hosts[index]

    def __iter__(self):
        return iter(self.hosts)

    def make_files(self):
        ssh = self.files / "ssh"
        ssh.mkdir()
        for name in ("host", "user"):
            call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(ssh / name))
        (ssh / "known").write_text("* " + (ssh / "host.pub").read_text())
        (ssh / "ssh_config").write_text("IdentityFile /etc/ssh/user\nIdentitiesOnly yes\nUserKnownHostsFile /etc/ssh/known\nGlobalKnownHostsFile /dev/null\n"
                                        "StrictHostKeyChecking yes\nKexAlgorithms curve25519-sha256\n")
        (ssh / "sshd_config").write_text("Port 22\nPort 2222\nHostKey /etc/ssh/host\nAuthorizedKeysFile /etc/ssh/user.pub\nPidFile none\nStrictModes no\nUsePAM no\n"
                                         "PasswordAuthentication no\nPermitRootLogin yes\nMaxStartups 100\nUseDNS no\n")
        names = [(f"10.77.0.{number}", f"host{number}") for number in range(1, self.count + 1)]
        (self.files / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for address, name in names))
        # Without PAM, sshd rejects users whose password is locked.
        (self.files / "shadow").write_text("root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n")

    def begin(self, words):
        """Start a process in new namespaces and wait until it reports that they are ready. The
        namespaces are removed when the test closes the process's standard input.
        """
        process = subprocess.Popen(words, env={**os.environ, "PATH": PATH}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        def end():
            process.stdin.close()
            process.stdout.close()
            process.wait()
        self.stack.callback(end)
        said = process.stdout.readline()
        if said != "up\n":
            raise RuntimeError("cannot create a host: " + said + process.stdout.read())
        return process

    def network(self, *words):
        """Run a command in the network namespace that connects the hosts."""
        return call("nsenter", "--target", str(self.init), "--net", "--", *words)

    @staticmethod
    def environment(variables):
        out = {name: value for name, value in os.environ.items() if not name.startswith(("ANYACCEL_", "DS_", "SIM_", "PDSH_"))}
        out["PATH"] = BIN + os.pathsep + PATH
        return {**out, **variables}


class HostsTest(unittest.TestCase):
    """Base class of tests with three hosts, `self.hosts`, which share the folder `self.folder`."""

    @classmethod
    def setUpClass(cls):
        if reason := why_not():
            raise unittest.SkipTest(reason)
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.share = pathlib.Path(os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory())))
        cls.hosts = stack.enter_context(Hosts(cls.share))

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.share))
        for host in self.hosts:
            self.addCleanup(host.end_processes)  # kills processes that a failed test leaves behind

    def assert_nothing_left(self, seconds=100):
        """Check that all processes of all hosts exit within `seconds` and leave no shared memory.
        """
        for host in self.hosts:
            with contextlib.suppress(AssertionError):
                wait_for(lambda host=host: not host.processes(), seconds)
            self.assertEqual(host.processes(), [], host.name)
            self.assertEqual(host.shared_memory(), [], host.name)


def main():
    """Run unittest.main(), or print the skip reason in the format that tools/run_tests expects."""
    if reason := why_not():
        print("SKIP: " + reason)
        raise SystemExit(77)
    unittest.main()
