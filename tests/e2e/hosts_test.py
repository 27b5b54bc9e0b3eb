"""Tests of the simulated hosts: isolation, connections, failures and cleanup."""
import os
import pathlib
import signal
import socket
import subprocess
import sys
import unittest

import hosts
from hosts import HostsTest, in_namespace
from shell import wait_for


class HostIsolation(HostsTest):
    # Fails if a host sees the name, network, processes, shared memory or temporary files of another
    # host or of the real machine.
    def test_isolation(self):
        for number, host in enumerate(self.hosts, 1):
            host.run(f"echo > /dev/shm/mine{number}; echo > /tmp/mine{number}")
        for number, host in enumerate(self.hosts, 1):
            said = host.run("hostname; hostname -I; ls /dev/shm; ls /tmp; ls -d /proc/[0-9]* | wc -l").stdout.split()
            self.assertEqual(said[:3], [f"host{number}", f"10.77.0.{number}", f"mine{number}"])
            self.assertIn(f"mine{number}", said)
            self.assertLess(int(said[-1]), 20)
            self.assertEqual(host.shared_memory(), [f"mine{number}"])
            host.run(f"rm /dev/shm/mine{number}")
        self.assertFalse(os.path.exists("/tmp/mine1"))
        self.assertNotEqual(socket.gethostname(), "host3")

    # Fails if ssh between the hosts prompts or prints a warning. Also fails if the test's folder is
    # not shared.
    def test_ssh(self):
        for host in self.hosts:
            done = self.hosts[0].run(f"ssh -o BatchMode=yes {host.name} 'hostname; echo {host.name} > {self.folder}/{host.name}'")
            self.assertEqual((done.stdout, done.stderr), (host.name + "\n", ""))
        self.assertEqual(sorted(os.listdir(self.folder)), ["host1", "host2", "host3"])

    # Fails if processes() omits a process of a job, or lists processes of the host itself.
    def test_processes(self):
        self.assertEqual([host.processes() for host in self.hosts], [[], [], []])
        process = self.hosts[1].start("exec sleep 1000")
        self.addCleanup(process.communicate)
        wait_for(lambda: "sleep 1000" in self.hosts[1].processes())
        self.assertEqual(self.hosts[2].processes(), [])
        os.kill(process.inner, signal.SIGKILL)
        wait_for(lambda: not self.hosts[1].processes())

    # Fails if data still passes after link(up=False), or if the network cannot be reconnected.
    def test_network_link(self):
        reach = f"ssh -o ConnectTimeout=2 {self.hosts[2].name} true"
        self.hosts[2].link(up=False)
        self.assertEqual(self.hosts[0].run(reach).returncode, 255)
        self.hosts[2].link(up=True)
        wait_for(lambda: self.hosts[0].run(reach).returncode == 0)

    # Fails if connections survive stop_sshd(), or if the server cannot be restarted with a
    # different set of CPUs.
    def test_sshd(self):
        host = self.hosts[1]
        process = self.hosts[0].start(f"exec ssh {host.name} 'echo up; exec sleep 1000'")
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), "up\n")
        host.stop_sshd()
        self.assertEqual(process.wait(), 255)
        self.assertNotEqual(self.hosts[0].run(f"ssh {host.name} true").returncode, 0)
        cpu = min(os.sched_getaffinity(0))
        host.start_sshd(cpus=[cpu])
        self.assertRegex(self.hosts[0].run(f"ssh {host.name} 'taskset -cp $$; true'").stdout, f": {cpu}\n")
        host.end_processes()
        host.stop_sshd()
        host.start_sshd()

    # Fails if the small disk has no size limit, or if it is visible outside its host.
    def test_small_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        self.hosts[1].small_disk(disk, 64)
        done = self.hosts[1].run(f"seq 100000 > {disk}/much")
        self.assertIn("No space left on device", done.stderr)
        self.assertEqual(self.hosts[0].run(f"seq 100000 > {disk}/much").returncode, 0)
        self.assertTrue((disk / "much").exists())
        self.hosts[1].run(f"umount {disk}")


class HostCleanup(unittest.TestCase):
    # Fails if a process of a host outlives the test that created the hosts, even if the test is
    # killed.
    def test_killed(self):
        code = ("import os, sys, time, hosts\n"
                "with hosts.Hosts(count=2) as made:\n"
                "  made[1].start('exec setsid sleep 1000')\n"
                "  print(*(os.readlink(f'/proc/{one.init}/ns/pid') for one in (made, *made)), flush=True)\n"
                "  sys.stdin.read()\n")
        for kill in (False, True):
            test = subprocess.Popen([sys.executable, "-B", "-c", code], cwd=pathlib.Path(__file__).parent, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            with test:
                namespaces = test.stdout.readline().split()
                self.assertEqual(len(namespaces), 3)
                for namespace in namespaces:
                    self.assertTrue(in_namespace(namespace))
                if kill:
                    test.kill()
                else:
                    test.stdin.close()
                test.wait()
            for namespace in namespaces:
                wait_for(lambda namespace=namespace: not in_namespace(namespace))


if __name__ == "__main__":
    hosts.main()
