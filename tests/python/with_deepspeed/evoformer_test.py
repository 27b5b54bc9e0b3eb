"""DeepSpeed's DS4Sci_EvoformerAttention on AnyAccel's op, compared with plain attention. On sim,
tensors are on the device.
"""

import importlib.util

import pytest

if importlib.util.find_spec("deepspeed") is None:
    pytest.skip("deepspeed is not installed", allow_module_level=True)

import anyaccel.deepspeed  # noqa: E402,F401
import torch  # noqa: E402

from deepspeed.accelerator import get_accelerator  # noqa: E402
from deepspeed.ops import deepspeed4science  # noqa: E402
from deepspeed.ops.deepspeed4science import evoformer_attn  # noqa: E402

DEVICE = get_accelerator().current_device_name()
SHAPE = (2, 3, 40, 4, 16)  # batch, entries, length, heads, dim


def plain(q, k, v, biases):
    scores = torch.einsum("...qhd,...khd->...hqk", q.double(), k.double()) / q.shape[-1] ** 0.5
    for bias in biases:
        scores = scores if bias is None else scores + bias.double()
    return torch.einsum("...hqk,...khd->...qhd", scores.softmax(-1), v.double())


def leaf(shape, dtype, numbers):
    return torch.randn(shape, generator=numbers).to(dtype).to(DEVICE).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("which", ["neither", "first", "second", "both"])
def test_attention(dtype, which):
    # Fails if the order of arguments of attention or attention_bwd differs from that in DeepSpeed's
    # Python code, or an omitted bias is read.
    batch, entries, length, heads, _ = SHAPE
    numbers = torch.Generator().manual_seed(5)
    q, k, v, grad = (leaf(SHAPE, dtype, numbers) for _ in range(4))
    bias1 = leaf((batch, entries, 1, 1, length), dtype, numbers) if which in ("first", "both") else None
    bias2 = leaf((batch, 1, heads, length, length), dtype, numbers) if which in ("second", "both") else None
    biases = {"neither": [], "first": [bias1], "second": [None, bias2], "both": [bias1, bias2]}[which]
    leaves = [x for x in (q, k, v, bias1, bias2) if x is not None]
    # a non-contiguous gradient, which DeepSpeed passes on unchanged
    grad = grad.detach().transpose(1, 2).contiguous().transpose(1, 2)
    out = deepspeed4science.DS4Sci_EvoformerAttention(q, k, v, list(biases))
    want = plain(q, k, v, biases)
    error = {torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    torch.testing.assert_close(out.double(), want, rtol=error, atol=error)
    for mine, right in zip(torch.autograd.grad(out, leaves, grad), torch.autograd.grad(want, leaves, grad.double())):
        torch.testing.assert_close(mine.double(), right.double(), rtol=2 * error, atol=2 * error * (1 + right.abs().max().item()))
    assert evoformer_attn.kernel_.__name__ == "anyaccel.ops.evoformer_attn"


def test_biases_without_gradients():
    # Fails if the empty tensors that DeepSpeed passes for unneeded gradients are written.
    batch, entries, length, heads, _ = SHAPE
    numbers = torch.Generator().manual_seed(6)
    q, k, v = (leaf(SHAPE, torch.float32, numbers) for _ in range(3))
    bias1 = leaf((batch, entries, 1, 1, length), torch.float32, numbers).detach()
    bias2 = leaf((batch, 1, heads, length, length), torch.float32, numbers)
    out = deepspeed4science.DS4Sci_EvoformerAttention(q, k, v, [bias1, bias2])
    got = torch.autograd.grad(out.square().sum(), (q, bias2))
    want = torch.autograd.grad(plain(q, k, v, [bias1, bias2]).square().sum(), (q, bias2))
    for mine, right in zip(got, want):
        torch.testing.assert_close(mine, right, rtol=1e-4, atol=1e-4)


def test_training_matches_plain_attention():
    # Fails if training with AlphaFold's mask gives different losses than with plain attention.
    def losses(attention):
        torch.manual_seed(7)
        project = torch.nn.Linear(16, 3 * 4 * 16).to(DEVICE)
        pair = torch.nn.Parameter(torch.zeros(1, 1, 4, 24, 24, device=DEVICE))
        optimizer = torch.optim.SGD([*project.parameters(), pair], lr=20.0)
        x = torch.randn(1, 5, 24, 16).to(DEVICE)
        mask = (1e9 * ((torch.rand(1, 5, 1, 1, 24) > 0.2).float() - 1)).to(DEVICE)
        said = []
        for _ in range(6):
            q, k, v = project(x).view(1, 5, 24, 3, 4, 16).unbind(3)
            loss = (attention(q, k, v, [mask, pair]).mean(3) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            said.append(loss.item())
        return said

    ours = losses(deepspeed4science.DS4Sci_EvoformerAttention)
    assert ours == pytest.approx(losses(lambda *given: plain(*given).float()), rel=1e-4)
    assert ours[-1] < 0.95 * ours[0]
