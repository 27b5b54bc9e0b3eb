"""Sorting, gathering and scattering tokens, compared with torch's indexing. DS_ACCELERATOR selects
the accelerator.
"""

import random

import pytest
import torch

import anyaccel

accelerator = anyaccel.get_accelerator()
DEVICE = accelerator.current_device_name()
torch.set_num_threads(2)
torch.manual_seed(0)
ltd = accelerator.create_op_builder("RandomLTDBuilder").load()
HOST = pytest.mark.skipif(DEVICE != "cpu", reason="the code is the same on all devices")


def on(tensor):
    return tensor.detach().to(DEVICE).requires_grad_(tensor.requires_grad)


def sampled(batch, tokens, count, dtype=torch.int32):
    return torch.stack([torch.randperm(tokens)[:count] for _ in range(batch)]).to(dtype) if batch else torch.zeros(0, count, dtype=dtype)


def plain_gather(whole, ids, batch_first):
    rows = whole if batch_first else whole.transpose(0, 1)
    out = torch.stack([rows[i, ids[i].long()] for i in range(len(ids))]) if len(ids) else rows[:, :ids.shape[1]]
    return out if batch_first else out.transpose(0, 1)


def plain_scatter(whole, part, ids, batch_first):
    out = whole.clone()
    rows, parts = (out, part) if batch_first else (out.transpose(0, 1), part.transpose(0, 1))
    for i in range(len(ids)):
        rows[i, ids[i].long()] = parts[i]
    return out


def with_gaps(tensor):
    """Return a copy whose channels or tokens are strided."""
    if random.random() < 0.5:
        return tensor.transpose(1, 2).contiguous().transpose(1, 2)
    wide = torch.empty(*tensor.shape[:2], tensor.shape[2] + 3, dtype=tensor.dtype)[..., 1:-2]
    return wide.copy_(tensor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.complex64, torch.bool])
@pytest.mark.parametrize("numbers", [torch.int32, torch.int64])
def test_gather_and_scatter(dtype, numbers):
    """Fails if tokens are copied from or to the wrong batch entry or position. Both orders of
    dimensions and strided tensors are tested.
    """
    random.seed(1)
    for case in range(25):
        batch, tokens, channels = random.choice((0, 1, 3)), random.choice((1, 7, 300)), random.choice((0, 1, 5, 64, 333))
        count, batch_first, gaps = random.randint(0, tokens), case % 2 == 0, case % 3 == 0
        ids = sampled(batch, tokens, count, numbers)
        whole = torch.randn(*((batch, tokens) if batch_first else (tokens, batch)), channels).to(dtype)
        part = torch.randn(*((batch, count) if batch_first else (count, batch)), channels).to(dtype)
        given, given_part, given_ids = (with_gaps(whole), with_gaps(part), ids.t().contiguous().t()) if gaps else (whole.clone(), part, ids)
        given, given_part, given_ids = given.to(DEVICE), given_part.to(DEVICE), given_ids.to(DEVICE)
        out = ltd.token_gather(given, given_ids, batch_first)
        assert out.is_contiguous() and out.dtype == dtype
        assert torch.equal(out.cpu(), plain_gather(whole, ids, batch_first)), (case, whole.shape, ids.shape)
        want = plain_scatter(whole, part, ids, batch_first)
        assert torch.equal(ltd.token_scatter(given, given_part, given_ids, batch_first).cpu(), want)
        assert torch.equal(given.cpu(), whole)
        assert ltd.token_scatter_(given, given_part, given_ids, batch_first) is given
        assert torch.equal(given.cpu(), want), (case, whole.shape, ids.shape)


@pytest.mark.parametrize("numbers", [torch.int32, torch.int64])
@pytest.mark.parametrize("shape, tokens", [((2, 3, 100), 130), ((1, 1, 64), 64), ((3, 5), 100000), ((0, 2, 4), 9), ((2, 0), 9), ((4, 1, 4096), 5000)])
def test_token_sort(numbers, shape, tokens):
    """Fails if an index is lost or moves to another row. The shapes select every sorting algorithm,
    also with duplicates and strided tensors.
    """
    rows = shape[:-1].numel() if isinstance(shape, torch.Size) else int(torch.tensor(shape[:-1]).prod())
    ids = sampled(rows, tokens, shape[-1], numbers).view(shape)
    there = on(ids)
    assert ltd.token_sort_(there, tokens) is there
    assert torch.equal(there.cpu(), ids.sort(-1).values)
    if ids.numel():
        twice = ids.clone()
        twice[..., 0] = twice[..., -1]
        apart = on(twice.transpose(0, -1).contiguous()).transpose(0, -1)
        assert torch.equal(ltd.token_sort_(apart, tokens).cpu(), twice.sort(-1).values)


@pytest.mark.parametrize("heads", [1, 3])
def test_masks(heads):
    """Fails if a mask is gathered for the tokens of a different layer or batch entry, or rows and
    columns are swapped.
    """
    mask = torch.randn(2, heads, 9, 9).masked_fill(torch.rand(2, 1, 9, 9) < 0.3, -torch.inf)
    ids = torch.stack([sampled(2, 9, 4) for _ in range(3)])
    got = ltd.mask_gather_bert(on(mask), on(ids)).cpu()
    assert got.shape == (3, 2, heads, 4, 4)
    for layer in range(3):
        for entry in range(2):
            at = ids[layer, entry].long()
            assert torch.equal(got[layer, entry], mask[entry][:, at][:, :, at])
    short = ltd.mask_gather_gpt(on(mask), 5)
    assert short.is_contiguous() and torch.equal(short.cpu(), mask[:, :, :5, :5])
    assert ltd.mask_gather_bert(on(mask[:0]), on(ids[:, :0])).shape == (3, 0, heads, 4, 4)


@pytest.mark.parametrize("batch_first", [True, False])
def test_gradients(batch_first):
    """Check first and second derivatives with torch's gradcheck. A token that is gathered twice
    gets the sum of both gradients.
    """
    whole, part = torch.randn(*((2, 6) if batch_first else (6, 2)), 3, dtype=torch.float64), torch.randn(2, 2, 3, dtype=torch.float64)
    whole, part, ids = on(whole.requires_grad_()), on(part.requires_grad_()), on(sampled(2, 6, 2))
    twice = on(torch.tensor([[1, 1, 4], [0, 5, 0]]))
    mask = on(torch.randn(2, 1, 4, 4, dtype=torch.float64, requires_grad=True))
    assert torch.autograd.gradcheck(lambda x: ltd.token_gather(x, twice, batch_first), (whole,))
    assert torch.autograd.gradgradcheck(lambda x: ltd.token_gather(x, twice, batch_first), (whole,))
    assert torch.autograd.gradcheck(lambda x, y: ltd.token_scatter(x, y, ids, batch_first), (whole, part))
    assert torch.autograd.gradgradcheck(lambda x, y: ltd.token_scatter(x, y, ids, batch_first), (whole, part))
    assert torch.autograd.gradcheck(lambda x: ltd.mask_gather_bert(x, ids[None] % 4), (mask,))
    assert torch.autograd.gradcheck(lambda x: ltd.mask_gather_gpt(x, 3), (mask,))


def test_autograd_detects_mutation():
    """Fails if autograd misses an in-place scatter, so that a backward pass uses overwritten
    values.
    """
    weight, part, ids = on(torch.ones(1, 4, 2, requires_grad=True)), on(torch.zeros(1, 1, 2)), on(torch.tensor([[2]]))
    kept = weight * 1
    product = kept * kept
    with pytest.raises(ValueError, match="use token_scatter"):
        ltd.token_scatter_(kept, part, ids, True)
    with pytest.raises(ValueError, match="use token_scatter"):
        ltd.token_scatter_(part.expand(1, 4, 2).clone(), part.clone().requires_grad_(), ids, True)
    with torch.no_grad():
        ltd.token_scatter_(kept, part, ids, True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


@HOST
def test_lazy_clones_are_not_modified():
    """Fails if a scatter writes into memory that a lazy clone shares."""
    whole = torch.zeros(1, 4, 2)
    lazy = torch._lazy_clone(whole)
    ltd.token_scatter_(lazy, torch.ones(1, 1, 2), torch.tensor([[2]]), True)
    ltd.token_sort_(order := torch._lazy_clone(first := torch.tensor([[3, 1]])), 4)
    assert not whole.any() and lazy.sum() == 2
    assert first.tolist() == [[3, 1]] and order.tolist() == [[1, 3]]


X, PART, IDS = torch.zeros(2, 5, 4), torch.ones(2, 2, 4), torch.tensor([[0, 1], [2, 4]])


@HOST
@pytest.mark.parametrize("call", [
    lambda: ltd.token_gather(X, IDS + 1, True),
    lambda: ltd.token_gather(X, IDS - 1, True),
    lambda: ltd.token_gather(X, IDS, False),
    lambda: ltd.token_gather(X, IDS.float(), True),
    lambda: ltd.token_gather(X[0], IDS, True),
    lambda: ltd.token_scatter_(X, PART, IDS + 1, True),
    lambda: ltd.token_scatter_(X, PART[:, :1], IDS, True),
    lambda: ltd.token_scatter_(X, PART.half(), IDS, True),
    lambda: ltd.token_scatter(X, PART[..., :3], IDS, True),
    lambda: ltd.token_sort_(IDS, 4),
    lambda: ltd.token_sort_(IDS - 1, 5),
    lambda: ltd.token_sort_(PART, 5),
    lambda: ltd.mask_gather_bert(X[None], IDS[None]),
    lambda: ltd.mask_gather_bert(torch.zeros(2, 1, 5, 5), IDS),
    lambda: ltd.mask_gather_gpt(torch.zeros(2, 1, 5, 5), 6),
])
def test_errors(call):
    """Fails if an invalid call accesses memory outside a tensor, or changes a tensor before it
    raises the error.
    """
    with pytest.raises(ValueError, match="; want|; got"):
        call()
    assert not X.any() and IDS.tolist() == [[0, 1], [2, 4]]


@HOST
def test_overlapping_memory():
    """Fails if a scatter with overlapping source and destination overwrites tokens that are not
    copied yet.
    """
    with pytest.raises(RuntimeError, match="single memory location"):
        ltd.token_scatter_(torch.zeros(1, 5, 4).expand(2, 5, 4), PART, IDS, True)
    whole = torch.randn(2, 5, 4)
    want = plain_scatter(whole, whole[:, :3].clone(), ids := torch.tensor([[1, 2, 3]] * 2), True)
    assert torch.equal(ltd.token_scatter_(whole, whole[:, :3], ids, True), want)


@HOST
def test_opcheck():
    """Fails if torch cannot trace an op, or a schema does not declare a mutation."""
    whole, part = torch.randn(2, 5, 4, requires_grad=True), torch.randn(2, 2, 4, requires_grad=True)
    op = torch.ops.anyaccel
    for batch_first in (True, False):
        there = whole if batch_first else whole.detach().transpose(0, 1).contiguous().requires_grad_()
        torch.library.opcheck(op.token_gather.default, (there, IDS, batch_first))
        torch.library.opcheck(op.token_scatter.default, (there, part, IDS, batch_first))
    torch.library.opcheck(op.token_scatter_.default, (torch.randn(2, 5, 4), part.detach(), IDS, True))
    torch.library.opcheck(op.token_sort_.default, (torch.tensor([[3, 1]]), 5))
    torch.library.opcheck(op.mask_gather_bert.default, (torch.randn(2, 1, 5, 5), IDS[None]))
    torch.library.opcheck(op.mask_gather_gpt.default, (torch.randn(2, 1, 5, 5), 3))


def test_compile():
    """Fails if a compiled function gives a different result, or loses an in-place scatter."""
    def step(x, y, ids):
        x = x.clone()
        ltd.token_sort_(ids := ids.clone(), 5)
        ltd.token_scatter_(x, y, ids, True)
        return ltd.token_gather(x, ids, True), x

    whole, part, ids = on(torch.randn(2, 5, 4)), on(torch.randn(2, 2, 4)), on(IDS.flip(1))
    compiled = torch.compile(step, backend="aot_eager", fullgraph=True)
    for got, want in zip(compiled(whole, part, ids), step(whole, part, ids)):
        assert torch.equal(got.cpu(), want.cpu())
