"""Starts the two ranks of data_parallel.bench.py.

usage: data_parallel.py BUILD
"""
import os
import socket
import subprocess
import sys
import tempfile

RANKS = 2


def main():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        job = {**os.environ, "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        ranks = [subprocess.Popen([f"{sys.argv[1]}/bin/bench_data_parallel", str(rank), str(RANKS), f"{folder}/store"],
                                  env={**job, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(RANKS)]
        return max((rank.wait(timeout=500) for rank in ranks), key=abs)


sys.exit(main())
