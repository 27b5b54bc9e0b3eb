"""The ops that quantize matrices, dequantize them and multiply a few rows by them, compared with
plain torch in float64. DS_ACCELERATOR selects the accelerator.
"""

import pytest
import torch

import anyaccel

accelerator = anyaccel.get_accelerator()
torch.set_num_threads(2)
accelerator.create_op_builder("DecoderInferenceBuilder").load()
DEVICE = accelerator.current_device_name()


def on_device(op):
    """Return a function that moves the op's arguments to the device and its results to the host."""
    def call(*arguments):
        out = op(*(each.to(DEVICE) if isinstance(each, torch.Tensor) else each for each in arguments))
        return out.cpu() if isinstance(out, torch.Tensor) else tuple(each.cpu() for each in out)
    return call


quantize, dequantize, linear = (on_device(getattr(torch.ops.anyaccel, "inference_" + name)) for name in ("quantize", "dequantize", "linear"))

SHAPES = [(1, 32, 32), (7, 96, 32), (33, 192, 64), (130, 384, 128), (5, 320, 320), (0, 64, 32)]


def random_tensor(*shape, dtype=torch.float32, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def represented(weight, scales, zeros=None):
    """Return the values that quantized weights represent: nibble j of word w of a block is input j *
    (block / 4) + w.
    """
    outputs, groups = scales.shape
    if weight.dtype == torch.int8:
        q, group = weight.double(), weight.shape[1] // groups
    else:
        group = weight.shape[1] * 2 // groups
        block = 64 if group % 64 == 0 else 32
        words = weight.view(outputs, 2 * weight.shape[1] // block, block // 4, 2)
        low, high = words[..., 0], words[..., 1]
        q = torch.stack([low & 15, low >> 4, high & 15, high >> 4], 2).reshape(outputs, 2 * weight.shape[1]).double()
        q = q - (8 if zeros is None else zeros.repeat_interleave(group, 1))
    return q * scales.double().repeat_interleave(group, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("shape", SHAPES)
def test_quantization_error(shape, bits, dtype):
    # Fails if a weight is not rounded to the nearest level or is stored in the wrong place, or a
    # scale is wrong.
    outputs, inputs, group = shape
    weight = random_tensor(outputs, inputs, dtype=dtype)
    made, scales = quantize(weight, bits, group)
    assert made.dtype == (torch.int8 if bits == 8 else torch.uint8) and scales.shape == (outputs, inputs // group)
    off = (represented(made, scales) - weight.double()).view(outputs, inputs // group, group)
    # int4 may clip a group's largest value if that reduces the error of the others.
    if bits == 8:
        assert (off.abs() <= scales.abs().double()[..., None] * 0.5001).all()
    else:
        plain = weight.double().view(outputs, inputs // group, group)
        step = plain.gather(-1, plain.abs().argmax(-1, keepdim=True)) / -8
        rounded = (plain / step).round().clamp(-8, 7) * step
        assert (off.square().sum(-1) <= (rounded - plain).square().sum(-1) * 1.01 + 1e-9).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["int8", "int4", "int4 zeros"])
@pytest.mark.parametrize("shape", SHAPES)
def test_dequantized_rows(shape, kind, dtype):
    # Fails if the wrong rows are read, or a weight format is misinterpreted.
    outputs, inputs, group = shape
    made, scales = quantize(random_tensor(outputs, inputs), 8 if kind == "int8" else 4, group)
    zeros = torch.randint(0, 16, scales.shape, dtype=torch.uint8) if kind == "int4 zeros" else None
    want = represented(made, scales, zeros).float().to(dtype)
    for begin, count in [(0, outputs), (outputs // 2, outputs - outputs // 2), (outputs, 0)]:
        assert torch.equal(dequantize(made, scales, zeros, begin, count, dtype), want[begin:begin + count])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["int8", "int4", "int4 zeros", "float", "bfloat16"])
@pytest.mark.parametrize("rows", [0, 1, 3, 16, 37])
def test_products(rows, kind, dtype):
    # Fails if rows, outputs or biases are swapped, or threads skip outputs.
    for outputs, inputs, group in SHAPES:
        weight, x, bias = random_tensor(outputs, inputs), random_tensor(rows, inputs, dtype=dtype, seed=2), random_tensor(outputs, seed=3)
        scales = zeros = None
        if kind.startswith("int"):
            weight, scales = quantize(weight, int(kind[3]), group)
            zeros = torch.randint(0, 16, scales.shape, dtype=torch.uint8) if kind == "int4 zeros" else None
            values = represented(weight, scales, zeros)
        else:
            weight = weight.to(getattr(torch, kind))
            values = weight.double()
        got = linear(x, weight, scales, zeros, bias)
        want = torch.nn.functional.linear(x.double(), values, bias.double())
        assert got.dtype == dtype and got.shape == want.shape
        if want.numel():
            error = {torch.float32: 3e-4, torch.bfloat16: 4e-3, torch.float16: 6e-4}[dtype]
            assert (got.double() - want).abs().max() <= error * want.abs().max().clamp_min(1)


def test_row_bits_do_not_depend_on_other_rows():
    # Fails if a row's result depends on the other rows.
    weight, scales = quantize(random_tensor(130, 384), 4, 128)
    x = random_tensor(2, 9, 384)
    together = linear(x, weight, scales)
    assert together.shape == (2, 9, 130)
    for i in range(2):
        for j in range(9):
            assert torch.equal(together[i, j], linear(x[i, j], weight, scales))
    gaps = random_tensor(384, 9).t()
    assert torch.equal(linear(gaps, weight, scales), linear(gaps.contiguous(), weight, scales))


def test_nan_and_infinity():
    # Fails if a NaN or infinity affects other groups.
    weight = random_tensor(4, 64)
    weight[1, 3], weight[2, 40] = float("nan"), float("inf")
    made, scales = quantize(weight, 8, 32)
    values = represented(made, scales)
    for row, part in [(0, slice(None)), (1, slice(32, None)), (2, slice(0, 32)), (3, slice(None))]:
        assert (values[row, part] - weight[row, part]).abs().max() <= scales.nan_to_num(0, 0, 0).max()


def test_invalid_arguments():
    # Fails if inconsistent sizes reach the kernels.
    made, scales = quantize(random_tensor(6, 64), 4, 32)

    def refused(words, call, *arguments):
        with pytest.raises((ValueError, RuntimeError), match=words):
            call(*arguments)

    refused("unsupported bits", quantize, random_tensor(6, 64), 3, 32)
    refused("group is out of range", quantize, random_tensor(6, 64), 4, 48)
    refused("group is out of range", quantize, random_tensor(6, 64), 4, 0)
    refused("weight is not a contiguous matrix", quantize, random_tensor(64), 4, 32)
    refused("weight is not a contiguous matrix", quantize, random_tensor(64, 6).t(), 4, 32)
    refused("dtype", quantize, random_tensor(6, 64).double(), 4, 32)
    refused("rows are out of range", dequantize, made, scales, None, 5, 2, torch.float32)
    refused("rows are out of range", dequantize, made, scales, None, -1, 2, torch.float32)
    refused("rows are out of range", dequantize, made, scales, None, 1 << 62, 1 << 62, torch.float32)
    refused("dtype", dequantize, made, scales, None, 0, 6, torch.int32)
    refused("scales", linear, random_tensor(2, 64), made)
    refused("x has the wrong shape", linear, random_tensor(2, 63), made, scales)
    refused("bias has the wrong shape", linear, random_tensor(2, 64), made, scales, None, random_tensor(5))


def test_empty_sums():
    # Fails if a matrix product whose inner dimension is 0 returns uninitialized memory.
    for rows in (1, 40):
        junk = [torch.full((rows, 33), 7.0, device=DEVICE) for _ in range(8)]
        del junk
        out = linear(torch.zeros(rows, 0, device=DEVICE), torch.zeros(33, 0, device=DEVICE), None, None, torch.full((33,), 2.0, device=DEVICE))
        assert torch.equal(out.cpu(), torch.full((rows, 33), 2.0))


def test_schemas():
    # Fails if a schema declares wrong mutations, or a meta kernel returns a different shape.
    made, scales = quantize(random_tensor(6, 64), 4, 32)
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.anyaccel.inference_quantize.default, (random_tensor(6, 64, dtype=torch.bfloat16), 8, 32), test_utils=tests)
    torch.library.opcheck(torch.ops.anyaccel.inference_dequantize.default, (made, scales, None, 1, 3, torch.bfloat16), test_utils=tests)
    torch.library.opcheck(torch.ops.anyaccel.inference_linear.default, (random_tensor(2, 3, 64, dtype=torch.float16), made, scales, None, random_tensor(6)), test_utils=tests)
