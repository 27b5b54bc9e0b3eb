"""A Slurm of a test's own: its configuration, and what has to run on each of its nodes."""
import os
import pathlib
import shutil
import unittest

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
CONFIG = """ClusterName=test
SlurmctldHost={host}({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={run}/munge.socket
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmctldPidFile={run}/slurmctld.pid
SlurmdPidFile={run}/slurmd.pid
StateSaveLocation={run}
SlurmdSpoolDir={run}
SlurmctldLogFile={run}/slurmctld.log
SlurmdLogFile={run}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SlurmdParameters=config_overrides
MessageTimeout=100
UnkillableStepTimeout=600
SlurmdTimeout=0
ReturnToService=2
PartitionName=all Nodes=ALL Default=YES State=UP
"""


# A machine that has no time for a minute is no broken node: without the timeouts above Slurm would take it out of service, and no later job would start.


class Slurm:
    """For `nodes`, pairs of a name and an address, of which the first has the controller. The configuration and the key lie in `folder`, which all see;
    what each node keeps lies in `run`, one of its own. Skips the test where Slurm is not installed."""

    def __init__(self, folder, run, nodes, ports):
        self.programs = {name: shutil.which(name, path=PATH) for name in ("munged", "slurmctld", "slurmd", "srun", "sinfo")}
        if missing := [name for name, path in self.programs.items() if not path]:
            raise unittest.SkipTest(f"{', '.join(missing)} not installed (tools/setup --mpi)")
        self.folder, self.run, self.nodes = pathlib.Path(folder), run, nodes
        config = self.folder / "slurm.conf"
        config.write_text(CONFIG.format(host=nodes[0][0], address=nodes[0][1], run=run, ports=ports) +
                          "".join(f"NodeName={name} NodeAddr={address} CPUs=8 State=UNKNOWN\n" for name, address in nodes))
        key = self.folder / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self.variables = {"SLURM_CONF": str(config)}

    def servers(self, node):
        """Command lines of what a node runs, in the order of their starts."""
        words = [[self.programs["munged"], "--foreground", "--force", "--key-file", str(self.folder / "key"), "--socket", f"{self.run}/munge.socket",
                  "--pid-file", f"{self.run}/munged.pid", "--log-file", f"{self.run}/munged.log", "--seed-file", f"{self.run}/munged.seed"]]
        if node == self.nodes[0][0]:
            words.append([self.programs["slurmctld"], "-D", "-c"])
        return [*words, [self.programs["slurmd"], "-D", "-N", node]]

    def logs(self):
        """The ends of what its servers wrote, of the nodes whose folder is seen here."""
        return "".join(f"{path.name}: {path.read_text(errors='replace')[-600:]}\n" for path in pathlib.Path(self.run).glob("slurm*.log"))

    def states(self):
        """The command line that prints each node's state, a line each: all are "idle" when jobs can be started."""
        return [self.programs["sinfo"], "-h", "-N", "-o", "%T"]
