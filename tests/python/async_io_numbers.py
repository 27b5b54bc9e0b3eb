"""Fixtures and helpers shared by the tests of async_io."""

import pytest
import torch

import anyaccel

aio = anyaccel.get_accelerator().create_op_builder("AsyncIOBuilder").load()


def numbers(count, dtype=torch.float32, device="cpu"):
    return torch.arange(count, dtype=torch.float64).mul(7).remainder(251).to(dtype).to(device)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "data")
