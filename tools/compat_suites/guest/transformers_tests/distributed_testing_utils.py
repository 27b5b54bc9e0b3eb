"""Starts the ranks of transformers' distributed tests: one process per CUDA device. The source
distribution of transformers lacks this file.
"""
import torch


def _get_distributed_backend():
    return "nccl"


def _get_distributed_device_type():
    return "cuda"


def _get_rank_device(rank):
    return torch.device("cuda", rank)


def _set_rank_device(rank):
    torch.cuda.set_device(rank)


def _start_rank_processes(function, args, nprocs):
    torch.multiprocessing.spawn(function, args=args, nprocs=nprocs, join=True)


def run_distributed(*arguments, **options):
    raise NotImplementedError("only tests that skip on CUDA call run_distributed()")
