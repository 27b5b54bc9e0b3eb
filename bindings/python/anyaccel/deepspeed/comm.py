"""Fixes for DeepSpeed's communication over oneCCL, which otherwise hangs or returns wrong
results."""

import torch

_BITWISE = ("band", "bor", "bxor")


def mend(ccl):
    """Patch DeepSpeed's module `ccl` (0.19.8), right after it is executed."""
    _mend_ranks(ccl.CCLBackend)
    _mend_reductions(ccl)
    # DeepSpeed's own scatter takes the arguments of gather. oneCCL has no scatter, so torch's is
    # used.
    ccl.CCLBackend.scatter = ccl.TorchBackend.scatter


def _mend_ranks(backend):
    """Make get_all_ranks_from_group() terminate for the group of all ranks.

    DeepSpeed counts a group's ranks by querying one rank after another until torch raises an error.
    For the group of all ranks, torch (2.13) accepts any number, so the loop never ends and exhausts
    memory, for example in training with AutoTP.
    """
    of_any = backend.get_all_ranks_from_group

    def get_all_ranks_from_group(self, group):
        return of_any(self, None if group is torch.distributed.group.WORLD else group)

    backend.get_all_ranks_from_group = get_all_ranks_from_group


def _bitwise(op):
    return getattr(op, "name", str(op)).lower() in _BITWISE


def _mend_reductions(ccl):
    """Fix three defects in the reductions.

    Bitwise reductions, which oneCCL lacks, use torch's backend. An asynchronous all_reduce returns
    a handle. inference_all_reduce reduces over its group instead of over all ranks.
    """
    backend, over_torch, total = ccl.CCLBackend, ccl.TorchBackend, ccl.ReduceOp.SUM
    over_ccl, reduce_over_ccl = backend.all_reduce, backend.reduce

    def all_reduce(self, tensor, op=total, group=None, async_op=False):
        if _bitwise(op):
            return over_torch.all_reduce(self, tensor, op, group, async_op)
        return over_ccl(self, tensor, op, group, async_op) or ccl.CCLHandler()

    def reduce(self, tensor, dst, op=total, group=None, async_op=False):
        way = over_torch.reduce if _bitwise(op) else reduce_over_ccl
        return way(self, tensor, dst, op, group, async_op)

    def inference_all_reduce(self, tensor, op=total, group=None):
        return self.all_reduce(tensor, op, group)

    backend.all_reduce, backend.reduce, backend.inference_all_reduce = all_reduce, reduce, inference_all_reduce
