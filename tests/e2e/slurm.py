"""A Slurm installation for a test: its configuration, and the daemons of each node."""
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


# The timeouts in the configuration keep Slurm from marking a slow node as down, after which no job
# would start.


class Slurm:
    """Slurm for `nodes`, which are (name, address) pairs. The first node runs the controller.

    The configuration and the key are in `folder`, which all nodes share. The state of each node is
    in `run`, which is local to the node. Skips the test if Slurm is not installed.
    """

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
        """Return the command lines of a node's daemons, in startup order."""
        words = [[self.programs["munged"], "--foreground", "--force", "--key-file", str(self.folder / "key"), "--socket", f"{self.run}/munge.socket",
                  "--pid-file", f"{self.run}/munged.pid", "--log-file", f"{self.run}/munged.log", "--seed-file", f"{self.run}/munged.seed"]]
        if node == self.nodes[0][0]:
            words.append([self.programs["slurmctld"], "-D", "-c"])
        return [*words, [self.programs["slurmd"], "-D", "-N", node]]

    def logs(self):
        """Return the end of each daemon log in `run`. Logs on other hosts are not included."""
        return "".join(f"{path.name}: {path.read_text(errors='replace')[-600:]}\n" for path in pathlib.Path(self.run).glob("slurm*.log"))

    def states(self):
        """Return the command line that prints one line per node with its state. Jobs can start when
        all states are "idle".
        """
        return [self.programs["sinfo"], "-h", "-N", "-o", "%T"]
