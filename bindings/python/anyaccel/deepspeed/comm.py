"""What DeepSpeed's communication over oneCCL needs to end, and to give what was asked for."""

import torch

_BITWISE = ("band", "bor", "bxor")


def mend(ccl):
    """Called right after DeepSpeed's module `ccl` (0.19.8) was executed."""
    _mend_ranks(ccl.CCLBackend)
    _mend_reductions(ccl)
    # DeepSpeed's own has the arguments of a gather; oneCCL has no scatter, so that torch does it in any case.
    ccl.CCLBackend.scatter = ccl.TorchBackend.scatter


def _mend_ranks(backend):
    """DeepSpeed counts the ranks of a group by asking torch for one after the other until that raises; of the group of all ranks torch (2.13)
    takes any number for a rank, so that the count went on for ever and memory with it, as in training with AutoTP. Of that group the ranks are known."""
    of_any = backend.get_all_ranks_from_group

    def get_all_ranks_from_group(self, group):
        return of_any(self, None if group is torch.distributed.group.WORLD else group)

    backend.get_all_ranks_from_group = get_all_ranks_from_group


def _bitwise(op):
    return getattr(op, "name", str(op)).lower() in _BITWISE


def _mend_reductions(ccl):
    """oneCCL has no bitwise reductions, torch's backend over it has. DeepSpeed's all_reduce gives nothing to wait for, and its
    inference_all_reduce forgets the group, so that all ranks were added up."""
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
