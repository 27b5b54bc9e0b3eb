"""Tests of collectives over shared memory with more than 4 GiB and more than 2^32 elements per
tensor. They need 14 GiB of free memory.
"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "python"))
COUNT = (1 << 32) + 6 * 4096 + 2  # divisible by two ranks, but not by the chunk size
PERIOD = 251  # a prime, so that values at a distance of a power of two differ
BLOCK = PERIOD << 16
GIB = 1 << 30


def blocks(tensor, first, add, factor=1):
    """Yield blocks of the tensor and their expected values: (index % PERIOD * factor + add) % 256.
    """
    import torch
    pattern = ((torch.arange(BLOCK + PERIOD) % PERIOD * factor + add) % 256).to(torch.uint8)[first % PERIOD:]
    for start in range(0, len(tensor), BLOCK):
        part = tensor[start:start + BLOCK]
        yield part, pattern[:len(part)]


def fill(tensor, add):
    for part, wanted in blocks(tensor, 0, add):
        part.copy_(wanted)


def check(tensor, add, factor=1, first=0):
    for number, (part, wanted) in enumerate(blocks(tensor, first, add, factor)):
        assert part.equal(wanted), f"wrong values in the block at element {first + number * BLOCK}"


def run(rank, store):
    import datetime

    import torch
    import torch.distributed as dist

    import anyaccel
    torch.set_num_threads(1)
    shm = anyaccel.get_accelerator().create_op_builder("ShareMemCommBuilder").load()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2, timeout=datetime.timedelta(minutes=20))
    assert shm.initialize(timeout=1200.0) == ""

    tensor = torch.empty(COUNT, dtype=torch.uint8)
    fill(tensor, 7 * rank)
    half = COUNT // 2
    check(shm.reduce_scatter(tensor), 7, factor=2, first=rank * half)
    shm.all_reduce(tensor)
    check(tensor, 7, factor=2)
    if rank == 1:
        fill(tensor, 35)
    shm.broadcast(tensor, 1)
    check(tensor, 35)
    del tensor

    tensor = torch.empty(half, dtype=torch.uint8)
    fill(tensor, 7 * rank)
    gathered = shm.all_gather(tensor)
    assert gathered.nbytes > 4 * GIB
    for other in range(2):
        check(gathered[other * half:(other + 1) * half], 7 * other)
    shm.barrier()
    sys.stdout.flush()
    os._exit(0)


class ShmCommLarge(unittest.TestCase):
    # Fails if a collective truncates a size, count or offset to 32 bits.
    def test_beyond_four_gibibytes(self):
        with open("/proc/meminfo", encoding="ascii") as file:
            free = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable:"))
        if free < 14 * GIB:
            print(f"SKIP: requires 14 GiB of free memory; {free // GIB} GiB are free")
            sys.exit(77)
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, "rank", str(rank), f"{folder}/store"]) for rank in range(2)]
            try:
                self.assertEqual([rank.wait(timeout=1500) for rank in ranks], [0, 0])
            finally:
                for rank in ranks:
                    rank.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        run(int(sys.argv[2]), sys.argv[3])
    unittest.main()
