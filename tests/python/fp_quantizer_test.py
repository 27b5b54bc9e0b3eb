"""The functions for small floating-point formats, called as in DeepSpeed's Python code and compared
with plain torch. DS_ACCELERATOR selects the accelerator.
"""

import math

import pytest
import torch

import anyaccel

accelerator = anyaccel.get_accelerator()
torch.set_num_threads(2)
F = accelerator.create_op_builder("FPQuantizerBuilder").load()
DEVICE = accelerator.current_device_name()
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# (q_bits, q_mantisa_bits as DeepSpeed's Python code passes it, the format's mantissa bits, its
# largest value). For 12 bits, DeepSpeed passes 4, but the format has 7.
FORMATS = {"e4m3": (8, 3, 3, 480.0), "e5m2": (8, 2, 2, 114688.0), "e4m7": (12, 4, 7, 510.0), "e3m2": (6, 2, 2, 28.0), "e2m1": (4, 1, 1, 6.0)}
SHAPES = [((8, 64), 64), ((3, 5, 16), 8), ((1, 512), 512), ((40, 1000), 200), ((7, 24), 8), ((300, 1024), 512), ((2, 9), 18 * 8)]


def random_tensor(*shape, dtype=torch.float32, seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def rows_for(groups, group, bits):
    return torch.ones(groups, group * bits // 8 + 4, dtype=torch.uint8, device=DEVICE)


def quantized(x, group, name, stochastic=False):
    bits, mantissa = FORMATS[name][:2]
    out = rows_for(x.numel() // group, group, bits)
    assert F.quantize(out, x.to(DEVICE), group, stochastic, bits, mantissa) is out
    return out


def read(rows, shape, group, name, dtype=torch.float32):
    bits, mantissa = FORMATS[name][:2]
    out = torch.empty(shape, dtype=dtype, device=DEVICE)
    assert F.dequantize(out, rows, group, mantissa, bits - mantissa - 1) is None
    return out.cpu()


def codes_and_steps(rows, group, name):
    """Return the codes and scales that are stored in rows. In each row, the codes come first,
    packed from the lowest bit upwards; the float32 scale is at the end.
    """
    bits = FORMATS[name][0]
    rows = rows.cpu()
    each = rows[:, :-4, None].int().bitwise_right_shift(torch.arange(8)).bitwise_and(1).flatten(1).view(rows.shape[0], group, bits)
    return (each << torch.arange(bits)).sum(-1), rows[:, -4:].contiguous().view(torch.float32)


def numbers(name):
    """Return the absolute values of all codes."""
    bits, _, mantissa, _ = FORMATS[name]
    code = torch.arange(2**(bits - 1))
    exponent, fraction = code >> mantissa, (code & (2**mantissa - 1)).double() / 2**mantissa
    bias = 2**(bits - mantissa - 2) - 1
    return torch.where(exponent == 0, fraction * 2.0**(1 - bias), (1 + fraction) * 2.0**(exponent - bias).double())


def plain(x, group, name):
    """Return codes and scales, computed from their definition. Rounding is to nearest, with ties
    away from zero; ties of subnormal values go to even.
    """
    bits, _, mantissa, greatest = FORMATS[name]
    x = x.float().reshape(-1, group)
    most = x.abs().amax(1, keepdim=True)
    y = x * (torch.tensor(greatest) / most)
    table = numbers(name)
    between = (table[1:] + table[:-1]) / 2
    codes = torch.bucketize(y.abs().double(), between, right=True)
    to_even = (codes % 2 == 1) & (codes <= 2**mantissa) & (between[(codes - 1).clamp(min=0)] == y.abs().double())
    return codes - to_even.long() | (y.signbit().long() << (bits - 1)), most / greatest


# Fails if a code or a scale differs from the format's definition, or is stored in the wrong place.
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("shape, group", SHAPES, ids=str)
def test_codes_and_values(shape, group, name, dtype):
    x = random_tensor(*shape, dtype=dtype)
    if x.numel() % group:
        x = x.repeat(group // math.gcd(x.numel(), group), 1)
    rows = quantized(x, group, name)
    codes, steps = codes_and_steps(rows, group, name)
    want, want_steps = plain(x, group, name)
    assert torch.equal(codes, want) and torch.equal(steps, want_steps)
    bits, _, mantissa, _ = FORMATS[name]
    sizes = numbers(name)[codes & (2**(bits - 1) - 1)]
    exact = (torch.where(codes >> (bits - 1) == 1, -sizes, sizes).float() * steps).reshape(x.shape)
    for to in DTYPES:
        assert torch.equal(read(rows, x.shape, group, name, to), exact.to(to))
    off = (exact - x.float()).abs()
    assert (off <= x.float().abs() * 2.0**-(mantissa + 1) * 1.001 + x.float().abs().max() * 2.0**-(2**(bits - mantissa - 1) - 2 + mantissa)).all()


# Fails if a finite 8-bit code has a different value than in torch's own float8 types.
@pytest.mark.parametrize("name, dtype", [("e4m3", torch.float8_e4m3fn), ("e5m2", torch.float8_e5m2)])
def test_8_bit_codes_match_torch(name, dtype):
    rows = torch.cat([torch.arange(256, dtype=torch.uint8), torch.tensor([1.0]).view(torch.uint8)])[None].to(DEVICE)
    ours, theirs = read(rows, (256,), 256, name), torch.arange(256, dtype=torch.uint8).view(dtype).float()
    finite = theirs.isfinite()
    assert finite.sum() == {"e4m3": 254, "e5m2": 248}[name] and torch.equal(ours[finite], theirs[finite])


# Fails if zeros are not preserved (DeepSpeed's kernels change them), or values near 0 are rounded
# up to the smallest normal number.
@pytest.mark.parametrize("name", FORMATS)
def test_zeros_and_tiny_values(name):
    x = torch.zeros(2, 24)
    x[1, :3] = torch.tensor([1.0, 1e-13, -1e-13])
    assert torch.equal(read(quantized(x, 24, name), x.shape, 24, name)[:, 3:], x[:, 3:])
    assert read(quantized(x, 24, name), x.shape, 24, name)[1, 1:].abs().max() == 0


# Fails if NaN or infinity in a group does not make that group NaN, or affects other groups.
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_nan_and_infinity(name, dtype):
    for bad in (math.inf, -math.inf, math.nan):
        x = random_tensor(5, 40)
        x[2, 39] = bad
        found = read(quantized(x.to(dtype), 40, name), x.shape, 40, name)
        assert found[2].isnan().all() and not found[[0, 1, 3, 4]].isnan().any()


# Fails if the average of the rounded values is biased, or torch.manual_seed() does not reproduce
# the rounding.
@pytest.mark.parametrize("name", FORMATS)
def test_stochastic_rounding(name):
    x = torch.full((64, 512), 0.3173)
    x[:, 0] = 1
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(quantized(x, 512, name, stochastic=True).cpu())
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])
    values = read(found[0].to(DEVICE), x.shape, 512, name)[:, 1:]
    assert values.unique().numel() == 2 and values.min() < 0.3173 < values.max()
    assert values.mean() == pytest.approx(0.3173, abs=4 * float(values.max() - values.min()) / values.numel()**0.5)
    # Rounding must not select the same positions in each group.
    assert (values == values.min()).float().mean(0).std() > 0


# Fails if elements are read or written in memory order instead of the tensor's order.
@pytest.mark.parametrize("name", FORMATS)
def test_noncontiguous_tensors(name):
    bits, mantissa = FORMATS[name][:2]
    x = random_tensor(16, 48)
    want = quantized(x.t().contiguous(), 16, name).cpu()
    assert torch.equal(quantized(x.to(DEVICE).t(), 16, name).cpu(), want)
    gaps = torch.zeros(48, want.shape[1], 2, dtype=torch.uint8, device=DEVICE)
    F.quantize(gaps[..., 0], x.to(DEVICE).t(), 16, False, bits, mantissa)
    assert torch.equal(gaps[..., 0].cpu(), want) and gaps[..., 1].eq(0).all()
    wide = torch.zeros(48, 16, 2, device=DEVICE)
    F.dequantize(wide[..., 1], gaps[..., 0], 16, mantissa, bits - mantissa - 1)
    assert torch.equal(wide[..., 1].cpu(), read(want.to(DEVICE), (48, 16), 16, name)) and wide[..., 0].eq(0).all()


def test_empty():
    # Fails if empty tensors are rejected.
    for name in FORMATS:
        bits, mantissa = FORMATS[name][:2]
        rows = quantized(torch.empty(0, 64), 64, name)
        assert rows.shape[0] == 0 and read(rows, (0, 64), 64, name).shape == (0, 64)
        F.selective_dequantize(torch.empty(0, 4, 8, device=DEVICE), quantized(random_tensor(3, 4, 8), 8, name), torch.empty(0, dtype=torch.int32, device=DEVICE), 8,
                               mantissa, bits - mantissa - 1)


# Fails if the wrong slices are read, or an index dtype is rejected.
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("integer", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_selective_dequantize(name, integer, dtype):
    bits, mantissa = FORMATS[name][:2]
    x = random_tensor(6, 10, 32, dtype=dtype)
    rows = quantized(x, 64, name)
    every = read(rows, x.shape, 64, name, dtype)
    indexes = torch.tensor([4, 0, 4, 5], dtype=integer)
    out = torch.empty(4, 10, 32, dtype=dtype, device=DEVICE)
    F.selective_dequantize(out, rows, indexes.to(DEVICE), 64, mantissa, bits - mantissa - 1)
    assert torch.equal(out.cpu(), every[indexes.long()])


# Fails if scales are read from the beginning of full rows, as in DeepSpeed's function.
@pytest.mark.parametrize("name", FORMATS)
def test_get_scales(name):
    rows = quantized(random_tensor(12, 24), 24, name)
    _, steps = codes_and_steps(rows, 24, name)
    cut = rows.split(rows.shape[1] - 4, dim=-1)[1].contiguous()
    assert torch.equal(F.get_scales(rows, 12).cpu(), steps) and torch.equal(F.get_scales(cut, 12).cpu(), steps)
    assert F.get_scales(cut, 12).data_ptr() == cut.data_ptr()
    assert F.get_scales(rows[:0], 0).shape == (0, 1)
    for bad in (lambda: F.get_scales(rows, 13), lambda: F.get_scales(rows.float(), 12), lambda: F.get_scales(rows.view(-1)[:6], 2)):
        with pytest.raises(ValueError, match=r"\[fp_quantizer_get_scales\].*got.*want"):
            bad()


def test_results_do_not_depend_on_threads():
    # Fails if random numbers or codes depend on the number of threads.
    x = random_tensor(900, 512)
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        torch.manual_seed(3)
        rows = quantized(x, 128, "e4m3", stochastic=True)
        found.append((rows.cpu(), read(rows, x.shape, 128, "e4m3")))
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][1], found[1][1])


X, ROWS = random_tensor(4, 16), torch.zeros(4, 20, dtype=torch.uint8)
BAD = {
    "no such bits": lambda: F.quantize(ROWS, X, 16, 0, 5, 2),
    "no such mantissa": lambda: F.quantize(ROWS, X, 16, 0, 8, 4),
    "no group": lambda: F.quantize(ROWS, X, 0, 0, 8, 3),
    "negative group": lambda: F.quantize(ROWS, X, -16, 0, 8, 3),
    "not whole groups": lambda: F.quantize(ROWS, X, 15, 0, 8, 3),
    "no whole bytes": lambda: F.quantize(ROWS, random_tensor(4, 2), 2, 0, 6, 2),
    "few rows": lambda: F.quantize(ROWS[:3], X, 16, 0, 8, 3),
    "rows' dtype": lambda: F.quantize(ROWS.int(), X, 16, 0, 8, 3),
    "dtype": lambda: F.quantize(ROWS, X.double(), 16, 0, 8, 3),
    "short rows": lambda: F.dequantize(X, ROWS[:, :-1], 16, 3, 4),
    "no such format": lambda: F.dequantize(X, ROWS, 16, 3, 5),
    "huge format": lambda: F.dequantize(X, ROWS, 16, 2**62, 2**62),
    "result's dtype": lambda: F.dequantize(X.int(), ROWS, 16, 3, 4),
    "codes' dtype": lambda: F.dequantize(X, ROWS.float(), 16, 3, 4),
    "index": lambda: F.selective_dequantize(X[:1].clone(), ROWS, torch.tensor([4]), 16, 3, 4),
    "negative index": lambda: F.selective_dequantize(X[:1].clone(), ROWS, torch.tensor([-1]), 16, 3, 4),
    "indexes' dtype": lambda: F.selective_dequantize(X[:1].clone(), ROWS, torch.tensor([1.0]), 16, 3, 4),
    "indexes' shape": lambda: F.selective_dequantize(X[:1].clone(), ROWS, torch.tensor([[1]]), 16, 3, 4),
    "parts of groups": lambda: F.selective_dequantize(X[:1].clone(), ROWS, torch.tensor([1, 2]), 16, 3, 4),
    "no indexes": lambda: F.selective_dequantize(X[:1].clone(), ROWS, torch.tensor([], dtype=torch.int64), 16, 3, 4),
    "broken rows": lambda: F.selective_dequantize(X[:1].clone(), ROWS.view(-1)[:-1], torch.tensor([0]), 16, 3, 4),
}


# Fails if an invalid call changes a tensor or accesses memory out of bounds, or its error does not
# name the cause.
@pytest.mark.parametrize("name", BAD)
def test_invalid_arguments(name):
    before = X.clone()
    with pytest.raises(ValueError, match=r"\[fp_quantizer_\w+\] .*got.*want"):
        BAD[name]()
    assert torch.equal(X, before) and ROWS.eq(0).all()


# Fails if a schema does not declare a mutation, or a meta kernel does not match its op, even with
# symbolic shapes.
def test_opcheck():
    ops = torch.ops.anyaccel
    for bits, mantissa, _, _ in FORMATS.values():
        rows = torch.zeros(4, 16 * bits // 8 + 4, dtype=torch.uint8)
        torch.library.opcheck(ops.fp_quantizer_quantize.default, (rows, X.bfloat16(), 16, bits, mantissa, True, 7))
        torch.library.opcheck(ops.fp_quantizer_dequantize.default, (X.clone(), rows, 16, mantissa, bits - mantissa - 1))
        torch.library.opcheck(ops.fp_quantizer_selective_dequantize.default,
                              (X[:2].clone(), rows, torch.tensor([3, 0]), 16, mantissa, bits - mantissa - 1))


# Fails if autograd misses a change to a saved tensor, so that the backward pass uses the new
# values.
def test_autograd_detects_mutation():
    x = torch.ones(16, requires_grad=True)
    saved = x.detach().clone()
    y = x * saved
    F.dequantize(saved, torch.zeros(1, 20, dtype=torch.uint8), 16, 3, 4)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_names():
    # Fails if the module or the builder lacks a name that DeepSpeed's has.
    builder = accelerator.get_op_builder("FPQuantizerBuilder")
    assert builder.NAME == "fp_quantizer" and builder().is_compatible()
    assert F.get_default_quant_dtype() is torch.uint8
    assert [F.get_quant_range(bits) for bits in (8, 6, 12, 4)] == [480, 28, 510, 6]
    with pytest.raises(ValueError, match="got 5 bits"):
        F.get_quant_range(5)
