"""Start ranks for the tests of the "shm" backend."""
import datetime
import os
import socket
import subprocess
import sys

import torch
import torch.distributed as dist

import anyaccel  # noqa: F401  registers the backend


def launch(file, function, size, *words, backend="shm", environment=None, exits=None):
    """Call `function(rank, size, *words)` of `file` in `size` processes, after
    init_process_group(backend), and return their output. `exits` has the exit statuses of the ranks
    that do not return 0.
    """
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, "-B", file, "rank", str(rank), str(size), str(port), backend, function, *words], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}) for rank in range(size)]
    try:
        outputs = [rank.communicate(timeout=500)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    want = [(exits or {}).get(rank, 0) for rank in range(size)]
    assert [rank.returncode for rank in ranks] == want, "\n".join(outputs)
    return outputs


def run(functions):
    """Run the function given to launch(), in one of its processes."""
    rank, size, port, backend, function, *words = sys.argv[2:]
    torch.set_num_threads(1)
    dist.init_process_group(backend, init_method=f"tcp://127.0.0.1:{port}", rank=int(rank), world_size=int(size),
                            timeout=datetime.timedelta(seconds=240))
    functions[function](int(rank), int(size), *words)


def leave(rank):
    """Exit without cleanup, because the ranks are out of step. Rank 0 hosts the store, so it exits
    last.
    """
    store = dist.distributed_c10d._get_default_store()
    if rank != 0:
        store.set(f"left {rank}", "1")
    else:
        others = [other for other in range(1, dist.get_world_size()) if not gone(store, other)]
        store.wait([f"left {other}" for other in others])
    os._exit(0)


def gone(store, rank):
    """Whether a rank has announced that it will be killed."""
    return store.check([f"killed {rank}"])


def same_bytes(left, right):
    return left.dtype == right.dtype and torch.equal(left.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8))


def output_of(code):
    """Return what a Python program prints."""
    return subprocess.run([sys.executable, "-B", "-W", "ignore", "-c", code], check=True, capture_output=True, text=True, timeout=120).stdout.strip()
