"""The functions that DeepSpeed's injected inference layers call, except attention, compared with
references in float64. DS_ACCELERATOR selects the accelerator.
"""

import pytest
import torch
import torch.nn.functional as F

from transformer_inference_case import DEVICE, DTYPES, HOST, NONE, context, m, made, near, of, ops, seeds  # noqa: F401


def shapes():
    return [(0, 3, 8), (2, 0, 8), (1, 1, 8), (2, 5, 24), (3, 7, 130)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", shapes())
@pytest.mark.parametrize("gaps", [False, True])
def test_norms(dtype, shape, gaps):
    """Fails if a norm is computed over the wrong dimension, or its input is rounded or lacks a term
    of the sum.
    """
    (x, gx), (r, gr) = made(*shape, dtype=dtype, gaps=gaps), made(*shape, dtype=dtype, gaps=gaps)
    (b, gb), (g, gg), (z, gz) = (made(shape[-1], dtype=dtype) for _ in range(3))
    norm = lambda t: F.layer_norm(t, shape[-1:], g, z, 1e-5)  # noqa: E731
    rms = lambda t: t * torch.rsqrt((t * t).mean(-1, keepdim=True) + 1e-5) * g  # noqa: E731
    near(m.layer_norm(gx, gg, gz, 1e-5), norm(x), dtype)
    near(m._layer_norm_residual(gx, gb, gr, gg, gz, 1e-5), norm(x + b + r), dtype)
    out, total = m.layer_norm_residual_store_pre_ln_res(gx, gb, gr, gg, gz, 1e-5)
    near(out, norm(x + b + r), dtype)
    near(total, x + b + r, dtype)
    near(m.rms_norm(gx, gg, 1e-5), rms(x), dtype)
    out, total = m.pre_rms_norm(gx, gr, gg, 1e-5)
    near(out, rms(x + r), dtype)
    near(total, x + r, dtype)


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


ACTIVATIONS = {1: gelu_tanh, 2: F.relu, 3: lambda x: x.chunk(2, -1)[0] * F.gelu(x.chunk(2, -1)[1]), 4: lambda x: x.chunk(2, -1)[0] * F.silu(x.chunk(2, -1)[1])}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", shapes())
def test_elementwise_functions(dtype, shape):
    """Fails if a bias is added to the wrong channel, the wrong half is the gate, or the wrong
    variant of gelu is used.
    """
    (x, gx), (y, gy) = made(*shape, dtype=dtype, gaps=True), made(*shape, dtype=dtype)
    b, gb = made(shape[-1], dtype=dtype)
    near(of("bias_gelu", dtype)(gx, gb), gelu_tanh(x + b), dtype)
    near(of("bias_relu", dtype)(gx, gb), F.relu(x + b), dtype)
    near(of("bias_add", dtype)(gx, gb), x + b, dtype)
    near(of("bias_residual", dtype)(gx, gy, gb), x + y + b, dtype)
    near(of("bias_residual", dtype)(gx, gy, NONE), x + y, dtype)
    for kind in (3, 4):
        near(m.gated_activation(gx, gb, kind), ACTIVATIONS[kind](x + b), dtype)
    kept = gy.clone()
    assert m._vector_add(kept, gx, 0.5) is kept
    near(kept, 0.5 * y + x, dtype)
    (c, gc), (t, gt) = made(1, 1, 2 * shape[-1], dtype=dtype), made(*shape[:2], 2, dtype=dtype)
    for wide, given in ((c.view(2, -1), gc), (None, gt)):
        if given.numel() == 2 * shape[-1] and wide is None:
            continue
        first, second = wide if wide is not None else (t[..., :1], t[..., 1:])
        kept = gy.clone()
        assert m.moe_res_matmul(gx, given, kept) is kept
        near(kept, x * first + y * second, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("biases", [True, False])
def test_residual_add_bias(dtype, ranks, biases):
    """Fails if a term that is equal on all ranks is not divided by the number of ranks, or a
    partial sum is.
    """
    (h, gh), (r, gr), (a, ga) = (made(2, 5, 24, dtype=dtype) for _ in range(3))
    (ab, gab), (fb, gfb) = (made(24, dtype=dtype) for _ in range(2))
    if not biases:
        ab, fb, gab, gfb = 0, 0, None, None
    for after, add, before, want in ((True, True, True, (r + a + fb + ab) / ranks + h), (True, True, False, r + h + fb),
                                     (False, True, True, (r + ab + fb) / ranks + h + a), (False, False, True, (r + fb) / ranks + h + a)):
        kept = gr.clone()
        assert of("residual_add_bias", dtype)(gh, kept, ga, gab, gfb, ranks, after, add, before) is kept
        near(kept, want, dtype)


def weights(inputs, outputs, dtype, transposed):
    w, given = made(inputs, outputs, dtype=dtype, scale=inputs ** -0.5)
    return w, given.t().contiguous() if transposed else given


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", shapes())
@pytest.mark.parametrize("transposed", [False, True])
def test_products(dtype, shape, transposed):
    """Fails if a matrix is read as transposed, a bias is not added exactly once, or the second
    result is not the norm.
    """
    hidden, inner = shape[-1], 2 * shape[-1] + 6
    (x, gx), (r, gr) = made(*shape, dtype=dtype, gaps=True), made(*shape, dtype=dtype)
    (g, gg), (z, gz), (ib, gib) = (made(hidden, dtype=dtype) for _ in range(3))
    (b, gb), (w, gw), (v, gv) = made(inner, dtype=dtype), weights(hidden, inner, dtype, transposed), weights(inner, hidden, dtype, transposed)
    norm = lambda t: F.layer_norm(t, (hidden,), g, z, 1e-5)  # noqa: E731
    rms = lambda t: t * torch.rsqrt((t * t).mean(-1, keepdim=True) + 1e-5) * g  # noqa: E731
    near(of("vector_matmul", dtype)(gx, gw, False, NONE, False, transposed), x @ w, dtype, 2)
    near(of("linear_layer", dtype)(gx, gw, gb, True, False, 2, transposed, 1e4), x @ w + b, dtype, 2)
    near(of("linear_layer", dtype)(gx, gw, gb, False, False, 2, transposed, 1e4), x @ w, dtype, 2)
    out, kept = of("qkv_gemm", dtype)(gx, gw, NONE, gb, gg, gz, 1e-5, True, False, transposed)
    near(out, norm(x) @ w + b, dtype, 3)
    near(kept, norm(x), dtype)
    out, kept = of("rms_qkv_gemm", dtype)(gx, gw, NONE, gg, 1e-5, False, transposed)
    near(out, rms(x) @ w, dtype, 3)
    near(kept, rms(x), dtype)
    near(of("fused_gemm_gelu", dtype)(gx, gw, NONE, gb, gv, NONE, False, transposed), gelu_tanh(x @ w + b) @ v, dtype, 3)
    for kind in (1, 2):
        for after in (True, False):
            out, kept = of("mlp_gemm", dtype)(gx, gr, gib, gw, gv, gb, gg, gz, 1e-5, True, after, NONE, NONE, False, kind, transposed)
            start = norm(x + r + ib) if after else norm(r)
            near(kept, start, dtype)
            near(out, ACTIVATIONS[kind](start @ w + b) @ v, dtype, 4)
    before = gr.clone()
    for kind in (1, 4):
        u, gu = weights(inner // 2, hidden, dtype, transposed) if kind == 4 else (v, gv)
        out, total = of("rms_mlp_gemm", dtype)(gx, gr, gw, gu, gg, 1e-5, NONE, NONE, False, kind, transposed)
        near(total, x + r, dtype)
        near(out, ACTIVATIONS[kind](rms(x + r) @ w) @ u, dtype, 4)
    assert torch.equal(gr, before)  # DeepSpeed's Python code adds to it afterwards


@HOST
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("inputs, outputs", [(300, 257), (9000, 33), (64, 2048), (130, 515)])
def test_products_of_skinny_gemm(dtype, transposed, inputs, outputs):
    """Fails if some inputs or outputs are skipped, or a row's bits depend on other rows or on
    threads.
    """
    w, gw = weights(inputs, outputs, dtype, transposed)
    x, gx = made(16, inputs, dtype=dtype)
    for rows in (1, 2, 4, 5, 16):
        got = of("vector_matmul", dtype)(gx[:rows], gw, False, NONE, False, transposed)
        near(got, x[:rows] @ w, dtype)
    for rows in (1, 4):
        together = ops.transformer_inference_skinny_gemm(gx[:rows], gw, transposed)
        near(together, x[:rows] @ w, dtype)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for row in range(rows):
                assert torch.equal(ops.transformer_inference_skinny_gemm(gx[row:row + 1], gw, transposed)[0], together[row])
    assert ops.transformer_inference_skinny_gemm(gx[:0], gw, transposed).shape == (0, outputs)
    with torch.enable_grad():
        leaf = gx[:1].clone().requires_grad_()
        of("vector_matmul", dtype)(leaf, gw, False, NONE, False, transposed).sum().backward()
        near(leaf.grad, w.sum(1)[None], dtype, 8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_int8_weights(dtype):
    """Fails if a scale is applied to the wrong rows, or int8 weights are read as [inputs, outputs].
    """
    for outputs, inputs, groups in ((12, 7, 3), (8, 16, 8), (4, 5, 1), (0, 4, 1)):
        codes = torch.randint(-128, 128, (outputs, inputs), dtype=torch.int8)
        scales = torch.rand(groups, 1) * 0.02
        want = codes.double() * scales.double().repeat_interleave(outputs // groups, 0)
        near(of("dequantize", dtype)(codes.to(DEVICE), scales.to(DEVICE), groups), want, dtype)
        x, gx = made(2, 3, inputs, dtype=dtype)
        rounded = want.to(dtype).double()
        near(of("vector_matmul", dtype)(gx, codes.to(DEVICE), False, scales.to(DEVICE), True, False), x @ rounded.t(), dtype, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_experts_and_padding(dtype):
    """Fails if a token is sent to the wrong expert or position, or the padding is not zero."""
    (q, gq), (w, gw) = made(9, 3, 4, dtype=dtype, gaps=True), made(9, 10, dtype=dtype)
    near(of("einsum_sec_sm_ecm", dtype)(gq, gw), torch.einsum("sec,sm->ecm", q, w), dtype, 2)
    for dim, wide in ((8, 32), (32, 64), (40, 64), (64, 128), (130, 130)):
        (a, ga), (k, gk), (v, gv) = made(2, 3, 5, dim, dtype=dtype), made(2, 3, 7, dim, dtype=dtype), made(2, 3, 7, dim, dtype=dtype)
        got = of("add_padding", dtype)(ga, gk, gv)
        for out, want, tokens in zip(got, (a, k, v), (5, 128, 128)):
            assert torch.equal(out.cpu().double(), F.pad(want, (0, wide - dim, 0, tokens - want.shape[2])))
        flat = [t.transpose(1, 2).flatten(2) for t in (ga, gk, gv)]
        for padded in (False, True):
            got = of("pad_transform", dtype)(*flat, 3, padded)
            for out, want, tokens in zip(got, (a, k, v), (5, 128, 128)):
                assert torch.equal(out.cpu().double(), F.pad(want, (0, wide - dim, 0, tokens - want.shape[2])) if padded else want)
    x, gx = made(2, 5, 24, dtype=dtype)
    (w, gw), (b, gb) = weights(24, 72, dtype, False), made(72, dtype=dtype)
    out = of("linear_layer", dtype)(gx, gw, gb, True, True, 3, False, 1e4)
    near(out, F.pad((x @ w + b).view(2, 5, 3, 3, 8).permute(2, 0, 3, 1, 4), (0, 24)), dtype, 2)


@HOST
@pytest.mark.parametrize("call, text", [
    (lambda: m.vector_matmul_fp32(torch.zeros(1, 2, 3), torch.zeros(4, 5), False, NONE, False, False), "want equal dtypes, and as many channels"),
    (lambda: m.vector_matmul_fp32(torch.zeros(1, 2, 4), torch.zeros(4, 5).half(), False, NONE, False, False), "want equal dtypes"),
    (lambda: m.gated_activation(torch.zeros(1, 2, 3), torch.zeros(3), 3), "want an even number of channels"),
    (lambda: m.gated_activation(torch.zeros(1, 2, 4), torch.zeros(4), 1), "not a gated activation"),
    (lambda: ops.transformer_inference_bias_activation(torch.zeros(1, 2, 4), None, 7), "unknown activation; got 7"),
    (lambda: m.dequantize_fp32(torch.zeros(4, 3, dtype=torch.int8), torch.zeros(3), 3), "the groups do not match"),
    (lambda: m.softmax_fp32(torch.zeros(2, 2, 3, 3), torch.zeros(2, 4, 3, 3)[:, :3], NONE, False, False, False, 1, False, 1.0, 0, 1), "the mask has the wrong shape"),
    (lambda: m.softmax_fp32(torch.zeros(2, 2, 3, 3), NONE, torch.zeros(3, 1, 3), False, False, False, 1, False, 1.0, 0, 1), "alibi has the wrong shape"),
    (lambda: m.softmax_fp32(torch.zeros(3), NONE, NONE, False, False, False, 1, False, 1.0, 0, 1), "the scores have the wrong shape"),
    (lambda: ops.transformer_inference_skinny_gemm(torch.zeros(2, 4), torch.zeros(4, 6)[:, ::2], False), "rows and weights do not match"),
    (lambda: ops.transformer_inference_skinny_gemm(torch.zeros(2, 4), torch.zeros(4, 6), True), "rows and weights do not match"),
    (lambda: context(torch.zeros(1, 2, 95), torch.float32), "queries, keys and values have the wrong shape"),
    (lambda: context(torch.zeros(1, 2, 96).int(), torch.float32), "is not supported"),
    (lambda: context(torch.zeros(1, 2, 96), torch.float32, rotary=(10, True, False)), "the number of rotary dimensions is out of range"),
    (lambda: m.apply_rotary_pos_emb(torch.zeros(1, 2, 8), torch.zeros(1, 3, 8), 2, 0, 2, True, 1e4), "query and key have the wrong shape or dtype"),
    (lambda: m.moe_res_matmul(torch.zeros(1, 2, 8), torch.zeros(3), torch.zeros(1, 2, 8)), "the coefficients have the wrong shape"),
    (lambda: m.einsum_sec_sm_ecm_fp32(torch.zeros(2, 3), torch.zeros(2, 3)), "the shapes of the tensors do not match"),
    (lambda: m.residual_add_bias_fp32(*[torch.zeros(1, 1, 4)] * 3, None, None, 0, True, True, True), "mp_size is out of range"),
    (lambda: m.add_padding_fp32(torch.zeros(1, 1, 4, 8), torch.zeros(1, 1, 200, 8), torch.zeros(1, 1, 200, 8)), "the heads have the wrong shape or are too large"),
    (lambda: m.allocate_workspace_fp32(32, 4, 5, 1, 0), "the sizes are out of range"),
])
def test_invalid_arguments_raise_value_error(call, text):
    """Fails if an invalid argument causes a read outside a tensor instead of a ValueError."""
    with pytest.raises(ValueError, match=text):
        call()


@HOST
def test_opcheck_and_gradients():
    """Check schemas, shapes and mutations with torch's opcheck, and the gradients of ops that are
    composed of torch's ops.
    """
    x, r, b = torch.randn(2, 5, 8), torch.randn(2, 5, 8), torch.randn(8)
    w, v = torch.randn(8, 24), torch.randn(24, 8)
    check = torch.library.opcheck
    check(ops.transformer_inference_skinny_gemm.default, (x, w, False))
    check(ops.transformer_inference_skinny_gemm.default, (x, v, True))
    check(ops.transformer_inference_vector_matmul.default, (torch.randn(1, 1, 300), torch.randn(300, 300), b, False, False))
    check(ops.transformer_inference_layer_norm.default, (x, b, b, 1e-5))
    check(ops.transformer_inference_layer_norm_residual_store.default, (x, b, r, b, b, 1e-5))
    check(ops.transformer_inference_pre_rms_norm.default, (x, r, b, 1e-5))
    check(ops.transformer_inference_bias_activation.default, (x, b, 4))
    check(ops.transformer_inference_softmax.default, (torch.randn(2, 2, 3, 3), torch.rand(2, 1, 3, 3) < 0.5, torch.randn(4, 1, 3), True, True, 2, 0.5, 0, 1))
    check(ops.transformer_inference_qkv_gemm.default, (x, w, b, torch.randn(24), b, b, 1e-5, False, False))
    check(ops.transformer_inference_mlp_gemm.default, (x, r, b, w, v, torch.randn(24), b, b, 1e-5, True, b, b, False, 1, False))
    check(ops.transformer_inference_rms_mlp_gemm.default, (x, r, w, v, b, 1e-5, b, b, False, 2, False))
    check(ops.transformer_inference_residual_add_bias_.default, (x, r.clone(), x.clone(), b, b, 2, True, True, True))
    check(ops.transformer_inference_vector_add_.default, (x.clone(), r, 0.5))
    check(ops.transformer_inference_moe_res_matmul_.default, (x, torch.randn(16), r.clone()))
    check(ops.transformer_inference_dequantize.default, (torch.ones(4, 3, dtype=torch.int8), torch.ones(2), 2, torch.bfloat16))
    check(ops.transformer_inference_apply_rotary_pos_emb.default, (x, r, 4, 1, 1, True, 1e4))
    check(ops.transformer_inference_pad_transform.default, (x, r, r, 2, True))
    m.allocate_workspace_fp32(8, 2, 5, 2, 1)
    check(ops.transformer_inference_softmax_context.default, (torch.randn(2, 5, 24), None, 4, True, False, 2, -1, 0.5, True, False, 1, True, 0, 1, None, 1e4))
    wide = [t.double().requires_grad_() for t in (x, w, torch.randn(24), b, b)]
    assert torch.autograd.gradcheck(lambda x, w, c, g, z: ops.transformer_inference_qkv_gemm(x, w, NONE, c, g, z, 1e-5, False, False), wide)
