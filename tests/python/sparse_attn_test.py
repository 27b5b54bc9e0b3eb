"""Block-sparse attention, compared with dense attention with a mask. DS_ACCELERATOR selects the
accelerator.
"""

import itertools
import math
import os
import random

import pytest
import torch

import anyaccel

accelerator = anyaccel.get_accelerator()
DEVICE = accelerator.current_device_name()
torch.set_num_threads(2)
torch.manual_seed(0)
sparse = accelerator.create_op_builder("SparseAttnBuilder").load()


def dense(q, k, v, layout, block, rpe=None, key_padding_mask=None, attn_mask=None, key_padding_mask_mode="add",
          attn_mask_mode="mul"):
    """Reference in float64. The result for a fully masked row is zero."""
    scores = q.double() @ k.double().transpose(-1, -2) / math.sqrt(q.shape[-1])
    if rpe is not None:
        scores = scores + rpe
    for mask, mode in ((attn_mask, attn_mask_mode),
                       (None if key_padding_mask is None else key_padding_mask[:, None, None], key_padding_mask_mode)):
        if mask is not None:
            scores = scores + mask if mode == "add" else scores.masked_fill(mask == 0, -math.inf)
    there = layout.repeat_interleave(block, 1).repeat_interleave(block, 2).bool()
    return scores.masked_fill(~there, -math.inf).softmax(-1).nan_to_num(0) @ v.double()


def on(tensor):
    return tensor.detach().to(DEVICE).requires_grad_(tensor.requires_grad) if isinstance(tensor, torch.Tensor) else tensor


def compare(shape, block, dtype, density=0.4, **masks):
    """Compare the result and the gradients with the reference."""
    batch, heads, length, _ = shape
    blocks = length // block
    layout = (torch.rand(heads, blocks, blocks) < density).long()
    if blocks and heads:
        layout[0, 0] = 0  # fully masked rows
    q, k, v = (torch.randn(shape).to(dtype).requires_grad_() for _ in range(3))
    there = [on(tensor) for tensor in (q, k, v)]
    out = sparse.sparse_attention(*there, on(layout), block, **{name: on(value) for name, value in masks.items()})
    want = dense(q, k, v, layout, block, **masks)
    assert out.dtype == dtype and out.is_contiguous()
    error = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 1e-2, torch.bfloat16: 6e-2}[dtype]
    torch.testing.assert_close(out.cpu().double(), want, rtol=error, atol=error)
    grad = torch.randn(shape).to(dtype)
    out.backward(on(grad))
    want.backward(grad.double())
    for mine, right in zip(there, (q, k, v)):
        torch.testing.assert_close(mine.grad.cpu(), right.grad, rtol=2 * error, atol=2 * error)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape, block", [((2, 3, 96, 64), 16), ((1, 2, 192, 20), 48), ((1, 2, 256, 80), 128)])
def test_matches_dense_attention(shape, block, dtype):
    compare(shape, block, dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_masks_of_lowest_value(dtype):
    """Fails if Hugging Face's masks, which contain the dtype's lowest value, give wrong results
    when they mask whole rows, or more keys than one chunk holds.
    """
    shape = (2, 2, 1024, 16)
    mask = torch.zeros(2, 1024, dtype=dtype)
    mask[0, :700] = torch.finfo(dtype).min
    mask[1] = torch.finfo(dtype).min
    compare(shape, 64, dtype, density=0.6, key_padding_mask=mask)


@pytest.mark.parametrize("modes", list(itertools.product(("add", "mul"), repeat=2)))
def test_masks(modes):
    """Check each mask in each mode, in combination with position embeddings."""
    shape = (2, 2, 128, 32)

    def mask(mode, *sizes):
        hidden = torch.rand(sizes) < 0.3
        return torch.zeros(sizes).masked_fill(hidden, -math.inf) if mode == "add" else ~hidden

    compare(shape, 32, torch.float32, rpe=torch.randn(2, 128, 128), key_padding_mask=mask(modes[0], 2, 128),
            attn_mask=mask(modes[1], 128, 128), key_padding_mask_mode=modes[0], attn_mask_mode=modes[1])


@pytest.mark.parametrize("shape", [(0, 2, 64, 16), (1, 2, 0, 16), (2, 0, 64, 16), (1, 2, 64, 0)])
def test_empty(shape):
    """Fails if a size of zero causes a division by zero or an invalid read. Unused position
    embeddings must get zero gradients.
    """
    compare(shape, 16, torch.float32)
    leaves = [on(torch.randn(shape, requires_grad=True)) for _ in range(3)]
    rpe = on(torch.randn(shape[2], shape[2], requires_grad=True))
    out = sparse.sparse_attention(*leaves, on(torch.ones(1, shape[2] // 16, shape[2] // 16)).bool(), 16, None, rpe)
    out.sum().backward()
    assert not rpe.grad.any() and rpe.grad.shape == rpe.shape


def test_keys_span_several_chunks():
    """Fails if the running softmax is wrong when the keys span several chunks."""
    compare((1, 1, 2048, 16), 64, torch.float32, density=0.9)


def test_strided_inputs():
    layout = torch.ones(1, 4, 4, dtype=torch.bool)
    q, k, v = (torch.randn(2, 64, 3, 32).transpose(1, 2) for _ in range(3))
    k = k.transpose(2, 3).contiguous().transpose(2, 3)
    out = sparse.sparse_attention(on(q), on(k), on(v), on(layout), 16)
    torch.testing.assert_close(out.cpu().double(), dense(q, k, v, layout, 16), rtol=2e-5, atol=2e-5)


def test_queries_without_visible_keys_are_zero():
    """Fails if a fully masked query gives NaN instead of a zero result and zero gradients."""
    q = torch.randn(1, 1, 32, 16, requires_grad=True)
    there = on(q)
    out = sparse.sparse_attention(there, there, there, on(torch.ones(1, 2, 2)).long(), 16,
                                  key_padding_mask=on(torch.zeros(1, 32)), key_padding_mask_mode="mul")
    out.sum().backward()
    assert not out.any() and not there.grad.any()


def test_nan_propagates():
    q = torch.randn(1, 1, 16, 16)
    q[0, 0, 3, 5] = math.nan
    k, v = torch.randn(2, 1, 1, 16, 16)
    out = sparse.sparse_attention(on(q), on(k), on(v), on(torch.ones(1, 1, 1).long()), 16).cpu()
    assert out[0, 0, 3].isnan().all() and not out[0, 0, 4].isnan().any()


@pytest.mark.parametrize("batch, heads, dim", [(1, 2, 4), (1, 1, 17), (5, 2, 3)])
@pytest.mark.parametrize("shared", [False, True])
def test_gradients(batch, heads, dim, shared):
    """Check the gradients with torch's gradcheck in float64. The inputs include position embeddings,
    masks, transposed gradients, and few or many heads.
    """
    layout = on(torch.tensor([[[1, 0, 1], [1, 1, 0], [0, 0, 0]]]))
    inputs = [on(torch.randn(batch, 48, heads, dim, dtype=torch.float64, requires_grad=True)) for _ in range(3)]
    rpe = on(torch.randn(*(() if shared else (heads,)), 48, 48, dtype=torch.float64, requires_grad=True))
    padding = torch.zeros(batch, 48, dtype=torch.float64)
    padding[0, 5:20] = -math.inf
    seen = torch.ones(48, 48).tril()
    seen[20] = 0  # a fully masked query

    def call(q, k, v, rpe):
        out = sparse.sparse_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), layout, 16, 0.3, rpe,
                                      on(padding), on(seen))
        return out.transpose(1, 3)

    assert torch.autograd.gradcheck(call, (*inputs, rpe), fast_mode=True)


@pytest.mark.skipif(DEVICE != "cpu", reason="the code is the same on all devices")
def test_bits_do_not_depend_on_threads():
    """Fails if a head's gradients, which several threads accumulate, are not bitwise reproducible,
    or their bits depend on the number of threads.
    """
    layout = (torch.rand(1, 24, 24) < 0.4).long()
    inputs = [torch.randn(1, 1, 384, 32, requires_grad=True) for _ in range(3)]
    rpe = torch.randn(384, 384, requires_grad=True)
    grad = torch.randn(1, 1, 384, 32)

    def gradients(threads):
        torch.set_num_threads(threads)
        try:
            out = sparse.sparse_attention(*inputs, layout, 16, None, rpe)
            return torch.autograd.grad(out, (*inputs, rpe), grad)
        finally:
            torch.set_num_threads(2)

    first = gradients(2)
    for threads in (1, 2, 2, 2):
        assert all(torch.equal(a, b) for a, b in zip(first, gradients(threads)))
    want = torch.autograd.grad(dense(*inputs, layout, 16, rpe), (*inputs, rpe), grad.double())
    for mine, right in zip(first, want):
        torch.testing.assert_close(mine, right.to(mine.dtype), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(384, 384), (3, 384, 384), (4, 1, 384, 384), (1, 3, 1, 384)])
def test_gradient_of_shared_position_embeddings(shape):
    """Fails if the gradient of shared position embeddings misses heads, or a temporary array of
    their size is allocated per head.
    """
    inputs = [torch.randn(4, 3, 384, 16) for _ in range(3)]
    rpe = torch.randn(shape, requires_grad=True)
    layout = (torch.rand(3, 24, 24) < 0.5).long()
    there = on(rpe)
    out = sparse.sparse_attention(*map(on, inputs), on(layout), 16, None, there)
    grad = torch.randn(out.shape)
    if DEVICE == "cpu":
        accelerator.reset_peak_memory_stats()
        before = accelerator.memory_allocated()
    got, = torch.autograd.grad(out, there, on(grad))
    if DEVICE == "cpu":
        # Allowed memory: the gradients of q, k and v; rpe's full-length gradient for each batch
        # entry and head that rpe has; its sum if rpe is broadcast along the length; the layout as
        # bool; and less than a page for each of these.
        slices = math.prod(shape[:-2])
        most = 3 * 4 * inputs[0].numel() + 4 * slices * 384 ** 2 + 4 * rpe.numel() + layout.numel() + 8 * 4096
        assert accelerator.max_memory_allocated() - before <= most
    want, = torch.autograd.grad(dense(*inputs, layout, 16, rpe), rpe, grad.double())
    torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-3)


@pytest.mark.skipif(DEVICE != "cpu", reason="the code is the same on all devices")
@pytest.mark.parametrize("heads", [1, 8])
def test_backward_memory(heads):
    """Fails if memory grows with the number of threads that share a head, or with the square of the
    length.
    """
    leaves = [torch.randn(1, heads, 2048, 64, requires_grad=True) for _ in range(3)]
    layout = (torch.rand(heads, 32, 32) < 0.2).long()
    out = sparse.sparse_attention(*leaves, layout, 64)
    grad = torch.randn(out.shape)
    accelerator.reset_peak_memory_stats()
    before = accelerator.memory_allocated()
    torch.autograd.grad(out, leaves, grad)
    assert accelerator.max_memory_allocated() - before <= 3 * 4 * out.numel() + layout.numel() + 4 * 4096


@pytest.mark.skipif(DEVICE != "cpu", reason="the code is the same on all devices")
def test_bool_mask_is_not_converted():
    """Fails if a bool mask is converted to a float array of length x length, or its strides are
    ignored.
    """
    inputs = [torch.randn(1, 1, 2048, 16) for _ in range(3)]
    layout = torch.ones(1, 16, 16, dtype=torch.bool)
    mask = torch.rand(2048, 2048) < 0.5
    accelerator.reset_peak_memory_stats()
    before = accelerator.memory_allocated()
    out = sparse.sparse_attention(*inputs, layout, 128, attn_mask=mask.t())
    assert accelerator.max_memory_allocated() - before < 2048 ** 2
    torch.testing.assert_close(out.double(), dense(*inputs, layout, 128, attn_mask=mask.t()), rtol=2e-5, atol=2e-5)


@pytest.mark.skipif(DEVICE != "cpu", reason="the code is the same on all devices")
def test_layouts_can_be_traced():
    """Fails if a layout cannot be created while torch traces or compiles a function."""
    op = torch.ops.anyaccel.sparse_attention_layout.default
    torch.library.opcheck(op, ("bigbird", 3, 16, 160), {"num_random_blocks": 1, "seed": 3})
    assert op("dense", 2, 16, 64, device="meta").shape == (2, 4, 4)


def test_opcheck():
    q, k, v = (torch.randn(1, 2, 32, 16, requires_grad=True) for _ in range(3))
    layout = torch.ones(2, 2, 2, dtype=torch.int64)
    rpe = torch.randn(32, 32, requires_grad=True)
    op = torch.ops.anyaccel.sparse_attention.default
    torch.library.opcheck(op, (q, k, v, layout, 16), {"rpe": rpe, "attn_mask": torch.ones(32, 32)})


def test_layouts():
    """Check the arguments under DeepSpeed's names. A C++ test checks the layouts themselves."""
    fixed = sparse.FixedSparsityConfig(num_heads=2, num_local_blocks=2, attention="unidirectional")
    assert fixed.make_layout(64).tolist() == [[[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1]]] * 2
    local = sparse.LocalSlidingWindowSparsityConfig(1)
    assert local.make_layout(48).tolist() == [[[1, 0, 0], [1, 1, 0], [0, 1, 1]]]
    windows = sparse.VariableSparsityConfig(1, local_window_blocks=[1, 2], global_block_indices=[3])
    assert windows.make_layout(64).tolist() == [[[1, 0, 0, 1], [0, 1, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]]]
    long = sparse.BSLongformerSparsityConfig(1, num_sliding_window_blocks=1, global_block_indices=[1])
    assert long.make_layout(48).tolist() == [[[1, 1, 0], [1, 1, 1], [0, 1, 1]]]
    assert sparse.DenseSparsityConfig(3, block=32).make_layout(64).sum() == 12
    birds = [sparse.BigBirdSparsityConfig(2, different_layout_per_head=True, num_random_blocks=3, seed=seed)
             .make_layout(512) for seed in (1, 1, 2)]
    assert birds[0].equal(birds[1]) and not birds[0].equal(birds[2]) and not birds[0][0].equal(birds[0][1])


def test_huge_layout():
    """Fails if a layout's size overflows, so that writes are out of bounds."""
    with pytest.raises(RuntimeError):
        torch.ops.anyaccel.sparse_attention_layout("dense", 2 ** 60, 16, 64)


@pytest.mark.parametrize("wrong", [
    lambda: sparse.FixedSparsityConfig(1, num_local_blocks=4, num_global_blocks=3),
    lambda: sparse.FixedSparsityConfig(1, attention="sideways"),
    lambda: sparse.BSLongformerSparsityConfig(1, global_block_indices=[2], global_block_end_indices=[2]),
    lambda: sparse.DenseSparsityConfig(1, block=17),
    lambda: sparse.DenseSparsityConfig(1).make_layout(17),
    lambda: sparse.SparseSelfAttention(sparse.DenseSparsityConfig(1), max_seq_length=32)(*torch.ones(3, 1, 1, 48, 8)),
    lambda: sparse.sparse_attention(*torch.ones(3, 1, 1, 32, 8), torch.ones(1, 3, 3).long(), 16),
    lambda: sparse.sparse_attention(*torch.ones(3, 1, 1, 32, 8), torch.ones(1, 2, 2).long(), 16, attn_mask_mode="or"),
    lambda: sparse.sparse_attention(*torch.ones(3, 1, 1, 32, 8), torch.ones(1, 2, 2).long(), 16,
                                    attn_mask=torch.ones(32, 32, dtype=torch.complex64)),
])
def test_errors(wrong):
    with pytest.raises(ValueError, match="want"):
        wrong()


def test_self_attention():
    """Check the module with a sequence shorter than its layout, and with a mask in transformers'
    format.
    """
    module = sparse.SparseSelfAttention(sparse.FixedSparsityConfig(2), max_seq_length=256)
    q, k, v = (torch.randn(2, 2, 128, 16) for _ in range(3))
    mask = torch.zeros(2, 128).masked_fill(torch.rand(2, 128) < 0.2, -10000.0)
    causal = torch.ones(128, 128).tril()
    out = module(on(q), on(k.mT), on(v), None, on(mask[:, None, None]), on(causal[None, None]))
    want = dense(q, k, v, module.sparsity_config.make_layout(256)[:, :8, :8], 16, key_padding_mask=mask,
                 attn_mask=causal)
    torch.testing.assert_close(out.cpu().double(), want, rtol=2e-5, atol=2e-5)


def test_individual_steps_match_sparse_attention():
    """Check that sdd, softmax and dsd together give sparse_attention's result. dds and the
    transposed variants must agree with dense products.
    """
    layout = (torch.rand(2, 4, 4) < 0.6).long()
    q, k, v = (torch.randn(2, 2, 64, 32, dtype=torch.float64) for _ in range(3))
    scores = sparse.MatMul(layout, 16, "sdd", trans_b=True)(q, k)
    weights = sparse.Softmax(layout, 16)(scores, scale=32 ** -0.5)
    out = sparse.MatMul(layout, 16, "dsd")(weights, v)
    torch.testing.assert_close(out, sparse.sparse_attention(q, k, v, layout, 16))
    there = layout.repeat_interleave(16, 1).repeat_interleave(16, 2)
    full = (q @ k.transpose(-1, -2)) * there
    torch.testing.assert_close(sparse.MatMul(layout, 16, "dsd", trans_a=True)(scores, v), full.transpose(-1, -2) @ v)
    wide = v.transpose(-1, -2)
    torch.testing.assert_close(sparse.MatMul(layout, 16, "dds")(wide, scores), wide @ full)
    torch.testing.assert_close(sparse.MatMul(layout, 16, "dds", trans_b=True)(wide, scores),
                               wide @ full.transpose(-1, -2))


def test_padding():
    """Check that inputs are padded to whole blocks, and the padding is removed from the output."""
    ids = torch.arange(10).view(1, 10) + 1
    embedding = torch.nn.Embedding(20, 4)
    pad_len, padded, mask, types, positions, embeds = sparse.SparseAttentionUtils.pad_to_block_size(
        16, ids, torch.ones(1, 10), None, ids, embedding(ids), 7, embedding)
    assert pad_len == 6 and padded[0, 10:].tolist() == [7] * 6 and mask.sum() == 10 and types is None
    assert positions.shape == (1, 16) and embeds.shape == (1, 16, 4) and embeds[0, 15].equal(embedding.weight[7])
    assert sparse.SparseAttentionUtils.unpad_sequence_output(pad_len, embeds).shape == (1, 10, 4)


def test_random_shapes():
    """Compare random shapes. SPARSE_ATTN_CASES sets their number; tests/slow runs hundreds."""
    rng = random.Random(1)
    cases = int(os.environ.get("SPARSE_ATTN_CASES", 6))
    dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
    for case in range(cases):
        block = 16 * rng.randint(1, 8)
        shape = (rng.randint(1, 2), rng.randint(1, 3), block * rng.randint(1, 4), rng.randint(1, 140))
        masks = {}
        if rng.random() < 0.3:
            masks["rpe"] = torch.randn(shape[2], shape[2])
        if rng.random() < 0.3:
            masks["attn_mask"] = torch.rand(shape[2], shape[2]) < 0.8
        if rng.random() < 0.3:
            masks["key_padding_mask"] = torch.randn(shape[0], shape[2])
        try:
            compare(shape, block, dtypes[case % 4], rng.random(), **masks)
        except AssertionError as error:
            raise AssertionError(f"case {case}: {shape}, block {block}, {dtypes[case % 4]}, {list(masks)}") from error
