"""What DeepSpeed's communication over oneCCL needs to end."""

import torch


def mend(ccl):
    """Called right after DeepSpeed's module `ccl` was executed. DeepSpeed (0.19.8) counts the ranks of a group by asking torch for one after the
    other until that raises; of the group of all ranks torch (2.13) takes any number for a rank, so that the count went on for ever and memory
    with it, as in training with AutoTP. Of that group the ranks are known."""
    of_any = ccl.CCLBackend.get_all_ranks_from_group

    def get_all_ranks_from_group(self, group):
        return of_any(self, None if group is torch.distributed.group.WORLD else group)

    ccl.CCLBackend.get_all_ranks_from_group = get_all_ranks_from_group
