"""Collectives of oneCCL between two and four processes, without MPI. Needs CCL_ROOT."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["ANYACCEL_BUILD_DIR"], "python"))


def share(address, group=None, source=0):
    import torch
    import torch.distributed as dist
    tensor = torch.tensor(address).to(torch.uint8)
    dist.broadcast(tensor, source, group=group)
    return tensor


def work(ccl, rank, size):
    import torch
    import torch.distributed as dist
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32,
                  torch.int64, torch.bool):
        ones = torch.ones(1000, dtype=dtype)
        ccl.all_reduce(ones)
        assert (ones == (1 if dtype == torch.bool else size)).all(), dtype
        most = torch.full((1000,), rank).to(dtype)
        ccl.all_reduce(most, dist.ReduceOp.MAX)
        assert (most == torch.tensor(size - 1).to(dtype)).all(), dtype
        sent = torch.full((3,), rank).to(dtype)
        ccl.broadcast(sent, size - 1)
        assert (sent == torch.tensor(size - 1).to(dtype)).all(), dtype
    mine = torch.full((2,), float(rank))
    assert torch.equal(ccl.all_gather(mine), torch.arange(size).repeat_interleave(2).float())
    base = torch.arange(size * 3.)
    assert torch.equal(ccl.reduce_scatter(base + rank), (base * size + sum(range(size))).chunk(size)[rank])
    part = torch.ones(4, 4).t()[:2] * (rank + 1)
    ccl.all_reduce(part, "avg")
    assert torch.allclose(part, torch.tensor((size + 1) / 2))
    ccl.all_reduce_caching(mine, "sum", "mine")
    assert (mine == sum(range(size))).all()
    ccl.inference_all_reduce(mine)
    ccl.barrier()
    assert (ccl.get_rank(), ccl.get_world_size()) == (rank, size)


def pairs(ccl, rank):
    import torch
    import torch.distributed as dist
    ranks = [0, 1] if rank < 2 else [2, 3]
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    address = share(ccl.get_sub_kvs_addr(rank == ranks[0]), groups[rank // 2], ranks[0])
    ccl.initialize_sub_comm(2, ranks.index(rank), address, ranks)
    tensor = torch.tensor([float(rank)])
    ccl.all_reduce(tensor, "sum", ranks)
    assert tensor.item() == sum(ranks)
    ccl.barrier(ranks)


def main(rank, size, store):
    import torch.distributed as dist

    import anyaccel
    ccl = anyaccel.get_accelerator().create_op_builder("CCLCommBuilder").load()
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    ccl.initialize(size, rank, share(ccl.get_kvs_addr(rank)))
    work(ccl, rank, size)
    if size == 4:
        pairs(ccl, rank)
    dist.barrier()
    os._exit(0)  # oneCCL's end is not what is tried here


class CCLCommTest(unittest.TestCase):

    def run_ranks(self, size):
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen([sys.executable, "-W", "ignore", __file__, "rank", str(rank), str(size), folder + "/store"])
                     for rank in range(size)]
            try:
                self.assertEqual([rank.wait(timeout=250) for rank in ranks], [0] * size)
            finally:
                for rank in ranks:
                    rank.kill()

    # Breaks when oneCCL is started in a way that needs a launcher, or a dtype or reduction is another there.
    def test_two_ranks(self):
        self.run_ranks(2)

    # Breaks when a group's communicator is taken for that of all ranks.
    def test_four_ranks_and_pairs(self):
        self.run_ranks(4)


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    if not os.path.exists(os.path.join(os.environ.get("CCL_ROOT", "/none"), "include/oneapi/ccl.hpp")):
        print("SKIP: CCL_ROOT names no oneCCL")
        sys.exit(77)
    unittest.main()
