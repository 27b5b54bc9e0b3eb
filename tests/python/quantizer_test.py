"""The quantizer's functions, called as in DeepSpeed's Python code and compared with plain torch.
DS_ACCELERATOR selects the accelerator.
"""

import math

import pytest
import torch

import anyaccel

accelerator = anyaccel.get_accelerator()
torch.set_num_threads(2)
Q = accelerator.create_op_builder("QuantizerBuilder").load()
DEVICE = accelerator.current_device_name()
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
TYPES = (Q.Symmetric, Q.Asymmetric)


def random_tensor(*shape, dtype=torch.float32, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def on_device(function, *arguments, **options):
    """Call the function with tensors on the device, and return its results on the host."""
    out = function(*(each.to(DEVICE) if isinstance(each, torch.Tensor) else each for each in arguments), **options)
    single = isinstance(out, torch.Tensor)
    assert all(each.device.type == torch.device(DEVICE).type for each in ([out] if single else out))
    return out.cpu() if single else [each.cpu() for each in out]


def plain_codes(x, groups, bits, kind):
    """Return codes and parameters, computed from their definition."""
    x = x.float().reshape(groups, -1)
    levels = 2.0**bits
    if kind == Q.Symmetric:
        most, offset = x.abs().amax(1, keepdim=True), torch.zeros(groups, 1)
        scale = torch.where(most == 0, torch.ones_like(most), levels / (2 * most))
    else:
        low, high = x.amin(1, keepdim=True), x.amax(1, keepdim=True)
        scale, offset = torch.where(high == low, torch.ones_like(low), levels / (high - low)), (high + low) / 2
    codes = ((x - offset) * scale).round().clamp(-levels / 2, levels / 2 - 1)
    return codes, (1 / scale if kind == Q.Symmetric else torch.cat([1 / scale, offset], 1))


def unpacked(codes, bits):
    """Unpack int4 codes: the upper four bits of each byte come first."""
    if bits == 8:
        return codes.float()
    codes = codes.view(torch.uint8).int()
    return torch.stack([codes >> 4, codes & 15], -1).flatten(-2).add(8).remainder(16).sub(8).float()


SHAPES = [((8, 64), 8), ((3, 5, 14), 5), ((1, 2), 1), ((6, 34), 17), ((2, 4096), 1), ((257, 96), 257), ((1000, 66), 3), ((70_000, 10), 2)]


# Fails if a code, a scale or an offset differs from DeepSpeed's definition, or is stored in the
# wrong place.
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("shape, groups", SHAPES, ids=str)
def test_codes_and_values(shape, groups, bits, kind, dtype):
    x = random_tensor(*shape, dtype=dtype) * 3 + 1
    codes, params = on_device(Q.quantize, x, groups, bits, kind)
    want, want_params = plain_codes(x, groups, bits, kind)
    assert codes.dtype == torch.int8 and codes.shape == (*shape[:-1], shape[-1] * bits // 8)
    assert params.dtype == torch.float32 and torch.equal(params, want_params)
    assert torch.equal(unpacked(codes, bits).reshape(groups, -1), want)
    step, offset = params[:, :1].double(), params[:, 1:].double() if kind == Q.Asymmetric else 0.0
    exact = (want.double() * step + offset).reshape(shape)
    wide = on_device(Q.dequantize_fp32, codes, params, groups, bits, kind)
    torch.testing.assert_close(wide.double(), exact, rtol=0, atol=float(exact.abs().max()) * 2**-23)
    for result, name in ((on_device(Q.dequantize, codes, params, groups, bits, kind), torch.float16),
                         (on_device(Q.dequantize, codes, params, groups, bits, kind, dtype=torch.bfloat16), torch.bfloat16)):
        assert result.dtype == name and torch.equal(result, wide.to(name))
    # The error is at most half a step, or a whole step for the largest value, which has no code.
    off = (wide - x.float()).abs().reshape(groups, -1)
    assert (off <= params[:, :1] * 1.001 + 1e-6).all()
    assert (off > params[:, :1] * 0.501 + 1e-6).sum() <= (want == 2**(bits - 1) - 1).sum()


# Fails if int8 with odd sizes is rejected (only int4 needs pairs), or the last elements are wrong.
@pytest.mark.parametrize("shape, groups", [((7,), 1), ((3, 5), 5), ((), 1), ((11, 13), 13), ((1,), 1)], ids=str)
def test_odd_sizes(shape, groups):
    x = random_tensor(*shape)
    codes, params = on_device(Q.quantize, x, groups, 8, Q.Symmetric)
    want, want_params = plain_codes(x, groups, 8, Q.Symmetric)
    assert codes.shape == shape and torch.equal(codes.float().reshape(groups, -1), want) and torch.equal(params, want_params)


# Fails if elements are read in memory order instead of the tensor's order, or strides of codes and
# parameters are ignored.
def test_noncontiguous_tensors():
    x = random_tensor(48, 32)
    for cut in (lambda x: x.t(), lambda x: x[::2], lambda x: x[:, 3:21], lambda x: x.t()[1:, ::3], lambda x: x[None, :, 5].expand(4, 48)):
        view = cut(x)
        groups = view.shape[0]
        codes, params = Q.quantize(cut(x.to(DEVICE)), groups, 4, Q.Asymmetric)
        want, want_params = plain_codes(view, groups, 4, Q.Asymmetric)
        assert torch.equal(unpacked(codes.cpu(), 4).reshape(groups, -1), want) and torch.equal(params.cpu(), want_params)
        with_gaps = [torch.stack([each, each], -1)[..., 1] for each in (codes, params)]
        assert not any(each.is_contiguous() for each in with_gaps)
        assert torch.equal(Q.dequantize(*with_gaps, groups, 4, Q.Asymmetric).cpu(), Q.dequantize(codes, params, groups, 4, Q.Asymmetric).cpu())


# Fails if empty tensors are rejected.
def test_empty():
    for shape, groups in (((0, 64), 0), ((0, 64), 3), ((4, 0), 4), ((0,), 0)):
        for bits in (8, 4):
            for kind in TYPES:
                codes, params = on_device(Q.quantize, torch.empty(shape), groups, bits, kind)
                assert codes.shape == (*shape[:-1], shape[-1] * bits // 8) and params.shape == (groups, 1 + int(kind))
                assert params[:, 0].eq(1).all()
                assert on_device(Q.dequantize, codes, params, groups, bits, kind).shape == shape
    codes, params = on_device(Q.swizzle_quant, torch.empty(0, 8), 8, 4, Q.Symmetric, 1, 2, 4)
    assert codes.shape == (0,) and params.shape == (8, 1)
    assert on_device(Q.quantized_reduction, codes, params, 8, 2, 4, Q.Symmetric, 4)[0].shape == (0,)
    assert on_device(Q.dequantize_int4_to_half_experimental, torch.empty(0, 8, dtype=torch.uint8), torch.empty(0).half(), torch.empty(0).half(),
                     0, 16).shape == (0, 16)


# Fails if a group of equal values causes a division by zero, or an overflow in one group affects
# another group.
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("bits", [8, 4])
def test_special_groups(bits, kind, dtype):
    rows = [torch.zeros(40), torch.full((40,), 5.0), torch.full((40,), -0.0)]
    for bad in (math.inf, -math.inf, math.nan):
        rows += [torch.linspace(-1, 1, 40), torch.linspace(-1, 1, 40)]
        rows[-1][23] = bad
    x = torch.stack(rows).to(dtype)
    codes, params = on_device(Q.quantize, x, len(rows), bits, kind)
    read = on_device(Q.dequantize_fp32, codes, params, len(rows), bits, kind)
    assert read[0].eq(0).all() and read[2].eq(0).all()
    assert read[1].eq(5).all() if kind == Q.Asymmetric else (read[1] - 5).abs().max() <= params[1, 0]
    for row in (4, 6, 8):
        assert read[row].isnan().all() and not read[row - 1].isnan().any()
        assert (read[row - 1] - x[row - 1].float()).abs().max() <= params[row - 1, 0] * 1.001


# Fails if results depend on the number of threads.
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_results_do_not_depend_on_threads(bits, kind):
    for size, groups in ((300_002, 1), (600_008, 4), (40_000, 1000)):
        x = random_tensor(size)
        made = {}
        for threads in (1, 2):
            torch.set_num_threads(threads)
            codes, params = Q.quantize(x.to(DEVICE), groups, bits, kind)
            made[threads] = (codes.cpu(), params.cpu(), Q.dequantize(codes, params, groups, bits, kind).cpu())
        assert all(torch.equal(a, b) for a, b in zip(made[1], made[2]))


# Fails if the two all-to-alls of DeepSpeed's gradients, simulated in one process, sum the wrong
# groups or use the wrong scales.
@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("nodes, devices", [(1, 2), (2, 2), (2, 4), (3, 1)])
def test_quantized_all_to_alls(nodes, devices, bits, kind):
    ranks, rows, columns = nodes * devices, 24, 32
    gradients = [random_tensor(rows, columns, seed=rank) for rank in range(ranks)]
    sent = [on_device(Q.swizzle_quant, x, rows, bits, kind, 1, nodes, devices) for x in gradients]
    reduced = {}
    for node in range(nodes):
        for device in range(devices):  # this rank's part, from each rank of the node
            peers = [sent[node * devices + peer] for peer in range(devices)]
            codes, scales = (torch.cat([peer[i].chunk(devices)[device] for peer in peers]) for i in (0, 1))
            reduced[node, device] = on_device(Q.quantized_reduction, codes, scales, rows, rows // devices, bits, kind, devices)
    for node in range(nodes):
        for device in range(devices):
            codes, scales = (torch.cat([reduced[peer, device][i].chunk(nodes)[node] for peer in range(nodes)]) for i in (0, 1))
            out = on_device(Q.dequantize, codes, scales, scales.shape[0], bits, kind)
            mine = sum(out.float().chunk(nodes))
            want = sum(gradients).flatten().chunk(ranks)[node * devices + device]
            # each of the two roundings has an error of at most one step
            step = sum(each[1][:, 0].max() for each in sent) + sum(each[1][:, 0].max() for each in reduced.values())
            assert mine.shape == want.shape and (mine - want).abs().max() <= step
            assert torch.nn.functional.cosine_similarity(mine, want, dim=0) > (0.999 if bits == 8 else 0.9)


# Fails if the sums differ from those of the dequantized values.
@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("bits", [8, 4])
def test_quantized_reduction(bits, kind):
    for devices, in_groups, out_groups, size in ((3, 4, 2, 80), (1, 5, 1, 50), (8, 2, 6, 96), (2, 1, 1, 40_000)):
        parts = [Q.quantize(random_tensor(size, seed=i).to(DEVICE), in_groups, bits, kind) for i in range(devices)]
        codes, params = (torch.cat([part[i] for part in parts]) for i in (0, 1))
        total = torch.zeros(size)
        for part in parts:
            total += Q.dequantize_fp32(*part, in_groups, bits, kind).cpu()
        made, made_params = Q.quantized_reduction(codes, params, devices * in_groups, out_groups, bits, kind, devices)
        want, want_params = Q.quantize(total.to(DEVICE), out_groups, bits, kind)
        assert torch.equal(made.cpu(), want.cpu()) and torch.equal(made_params.cpu(), want_params.cpu())


# Fails if unsigned codes are decoded differently than in the Python fallback of DeepSpeed's
# kernels.
@pytest.mark.parametrize("bits", [8, 4])
def test_dequantize_to_half(bits):
    groups, group = 12, 48
    codes = torch.randint(0, 256, (groups, group * bits // 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    scale, least = random_tensor(groups, 1, dtype=torch.float16).abs() + 0.5, random_tensor(groups, 1, dtype=torch.float16, seed=2)
    wide = codes if bits == 8 else torch.stack([codes >> 4, codes & 15], -1).flatten(-2)
    want = wide.half().div(scale).add(least)
    function = Q.dequantize_int8_to_half_experimental if bits == 8 else Q.dequantize_int4_to_half_experimental
    assert torch.equal(on_device(function, codes, scale, least, groups, group), want)


X = random_tensor(4, 16)
BAD = {
    "groups": lambda: Q.quantize(X, 5, 8, Q.Symmetric),
    "no groups": lambda: Q.quantize(X, 0, 8, Q.Symmetric),
    "negative groups": lambda: Q.quantize(X, -4, 8, Q.Symmetric),
    "bits": lambda: Q.quantize(X, 4, 3, Q.Symmetric),
    "type": lambda: Q.quantize(X, 4, 8, 2),
    "dtype": lambda: Q.quantize(X.double(), 4, 8, Q.Symmetric),
    "integers": lambda: Q.quantize(X.int(), 4, 8, Q.Symmetric),
    "odd pairs": lambda: Q.quantize(random_tensor(4, 9), 2, 4, Q.Symmetric),
    "odd group": lambda: Q.quantize(random_tensor(6, 2), 4, 4, Q.Symmetric),
    "a single int4": lambda: Q.quantize(torch.tensor(1.0), 1, 4, Q.Symmetric),
    "not codes": lambda: Q.dequantize(X, torch.ones(4, 1), 4, 8, Q.Symmetric),
    "few parameters": lambda: Q.dequantize(X.to(torch.int8), torch.ones(3, 1), 4, 8, Q.Symmetric),
    "no offsets": lambda: Q.dequantize(X.to(torch.int8), torch.ones(4, 1), 4, 8, Q.Asymmetric),
    "parameters' dtype": lambda: Q.dequantize(X.to(torch.int8), torch.ones(4, 1).half(), 4, 8, Q.Symmetric),
    "values' dtype": lambda: Q.dequantize(X.to(torch.int8), torch.ones(4, 1), 4, 8, Q.Symmetric, torch.int32),
    "partitions": lambda: Q.swizzle_quant(X, 4, 8, Q.Symmetric, 1, 3, 1),
    "no partitions": lambda: Q.swizzle_quant(X, 4, 8, Q.Symmetric, 1, 0, 1),
    "slices": lambda: Q.swizzle_quant(X, 4, 8, Q.Symmetric, 4, 2, 1),
    "huge": lambda: Q.swizzle_quant(X, 4, 8, Q.Symmetric, 2**62, 2**62, 2**62),
    "devices": lambda: Q.quantized_reduction(X.to(torch.int8).view(-1), torch.ones(4, 1), 4, 2, 8, Q.Symmetric, 3),
    "no devices": lambda: Q.quantized_reduction(X.to(torch.int8).view(-1), torch.ones(4, 1), 4, 2, 8, Q.Symmetric, 0),
    "sums": lambda: Q.quantized_reduction(X.to(torch.int8).view(-1), torch.ones(4, 1), 4, 3, 8, Q.Symmetric, 2),
    "their scales": lambda: Q.quantized_reduction(X.to(torch.int8).view(-1), torch.ones(5, 1), 4, 2, 8, Q.Symmetric, 2),
    "group size": lambda: Q.dequantize_int8_to_half_experimental(X.to(torch.uint8), torch.ones(4).half(), torch.ones(4).half(), 4, 15),
    "negative size": lambda: Q.dequantize_int8_to_half_experimental(X[:0].to(torch.uint8), torch.ones(0).half(), torch.ones(0).half(), 0, -1),
    "scales of float32": lambda: Q.dequantize_int8_to_half_experimental(X.to(torch.uint8), torch.ones(4), torch.ones(4).half(), 4, 16),
}


# Fails if an invalid call accesses memory out of bounds, or its error does not name the cause.
@pytest.mark.parametrize("name", BAD)
def test_invalid_arguments(name):
    with pytest.raises(ValueError, match="is not a valid QuantizationType" if name == "type" else r"\[quantizer_\w+\] .*got.*want"):
        BAD[name]()


# Fails if a call accepts tensors on different devices.
def test_mixed_devices_are_rejected():
    if torch.device(DEVICE).type == "cpu":
        pytest.skip("this accelerator uses host tensors")
    codes, params = Q.quantize(X.to(DEVICE), 4, 8, Q.Symmetric)
    with pytest.raises((RuntimeError, ValueError), match="device"):
        Q.dequantize(codes, params.cpu(), 4, 8, Q.Symmetric)


# Fails if a tensor that requires gradients is rejected, or the codes require gradients.
def test_gradients():
    x = X.clone().requires_grad_()
    codes, params = Q.quantize(x, 4, 8, Q.Symmetric)
    assert not codes.requires_grad and torch.equal(codes, Q.quantize(X, 4, 8, Q.Symmetric)[0])


# Fails if a schema does not declare a mutation or an alias, or a meta kernel does not match its op,
# even with symbolic shapes.
def test_opcheck():
    ops = torch.ops.anyaccel
    for bits in (8, 4):
        codes, params = ops.quantizer_quantize(X, 4, bits, True)
        torch.library.opcheck(ops.quantizer_quantize.default, (X, 4, bits, True))
        torch.library.opcheck(ops.quantizer_dequantize.default, (codes, params, 4, bits, True, torch.bfloat16))
        torch.library.opcheck(ops.quantizer_swizzle.default, (X.half(), 4, bits, False, 1, 2, 2))
        torch.library.opcheck(ops.quantizer_reduce.default, (codes, params, 4, 2, bits, True, 2))
        torch.library.opcheck(ops.quantizer_dequantize_half.default,
                              (codes.view(torch.uint8), torch.ones(4).half(), torch.ones(4).half(), 4, 16, bits))


# Fails if the module lacks a name that DeepSpeed's binding has.
def test_names():
    assert [int(each) for each in TYPES] == [0, 1] and Q.QuantizationType.Asymmetric is Q.Asymmetric
    assert Q.__name__ == "anyaccel.ops.quantizer"
    builder = accelerator.get_op_builder("QuantizerBuilder")
    assert builder.NAME == "quantizer" and builder().is_compatible()
