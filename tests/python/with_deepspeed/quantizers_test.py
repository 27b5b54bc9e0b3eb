"""DeepSpeed's own Python code on AnyAccel's quantizers: its classes for small floating-point
formats, weights, and gradients in two all-to-alls.
"""

import socket

import importlib.util

import pytest

if importlib.util.find_spec("deepspeed") is None:
    pytest.skip("deepspeed is not installed", allow_module_level=True)

import anyaccel.deepspeed  # noqa: E402,F401
import deepspeed  # noqa: E402
import torch  # noqa: E402

from deepspeed.accelerator import get_accelerator  # noqa: E402
from deepspeed.inference.quantization.utils import DeQuantizer, Quantizer  # noqa: E402
from deepspeed.linear.config import QuantizationConfig  # noqa: E402
from deepspeed.linear.quantization import QuantizedLinear, QuantizedParameter  # noqa: E402
from deepspeed.ops.fp_quantizer import FP_Quantize, matmul_fp8  # noqa: E402
from deepspeed.ops.op_builder import FPQuantizerBuilder, QuantizerBuilder  # noqa: E402
from deepspeed.runtime.comm.coalesced_collectives import all_to_all_quant_reduce  # noqa: E402
from deepspeed.runtime.zero.partition_parameters import CUDAQuantizer  # noqa: E402

DEVICE = get_accelerator().current_device_name()
# Largest relative rounding error by number of bits: half the distance between a format's two
# largest numbers, relative to them.
ERRORS = {8: 2**-4, 12: 2**-8, 6: 2**-3, 4: 2**-2}


def random_tensor(*shape, dtype=torch.bfloat16, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype).to(DEVICE)


def test_builders():
    # Fails if DeepSpeed's names refer to its own builders, which compile, or the class lacks a
    # function that is used before load().
    assert FPQuantizerBuilder().is_compatible() and QuantizerBuilder().is_compatible()
    assert FPQuantizerBuilder().load().__name__ == "anyaccel.ops.fp_quantizer"
    assert FPQuantizerBuilder.get_default_quant_dtype() is torch.uint8
    assert [FPQuantizerBuilder.get_quant_range(bits) for bits in (8, 6, 12)] == [480, 28, 510]


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("bits", ERRORS)
@pytest.mark.parametrize("shape, group", [((512, 64), 512), ((8, 64, 32), 256)], ids=str)
def test_small_float_formats(shape, group, bits, stochastic):
    # Fails if the order of arguments differs from that in FP_Quantize, or rows have a different
    # size than it allocates.
    x = random_tensor(*shape)
    quantizer = FP_Quantize(QuantizationConfig(q_bits=bits, group_size=group))
    rows = quantizer.quantize(x, q_bits=bits, stochastic_mode=stochastic)
    assert rows.dtype == torch.uint8 and rows.shape == (x.numel() // group, group * bits // 8 + 4)
    read = quantizer.dequantize(rows, q_bits=bits)
    assert read.dtype == torch.bfloat16 and read.shape == x.shape
    most = x.float().reshape(-1, group).abs().amax(1, keepdim=True)
    off = (read.float() - x.float()).abs().reshape(-1, group)
    # half the distance to the next number, plus a small absolute error near zero; bfloat16 adds
    # another rounding
    assert (off <= (1 + stochastic) * (ERRORS[bits] + 2**-8) * x.float().abs().reshape(-1, group) + most / 5).all()
    assert (off / most).mean() < 1.5 * (1 + stochastic) * ERRORS[bits] / 2


def test_separate_data_and_scales():
    # Fails if the scales are not after the codes, where FP_Quantize splits the rows.
    x = random_tensor(64, 512)
    quantizer = FP_Quantize(QuantizationConfig(group_size=256))
    data, scale = quantizer.quantize(x, return_meta_tensor=True)
    assert data.shape == x.shape and scale.shape == (128, 4)
    together = FP_Quantize(QuantizationConfig(group_size=256))
    rows = together.quantize(x)
    assert torch.equal(quantizer.dequantize(data, scale=scale), together.dequantize(rows))
    steps = quantizer.get_scales()
    assert torch.equal(steps, (x.float().reshape(-1, 256).abs().amax(1, keepdim=True) / 480))


@pytest.mark.parametrize("bits", ERRORS)
def test_selective_dequantize(bits):
    # Fails if an expert gets another expert's weights.
    x = random_tensor(6, 16, 64)
    quantizer = FP_Quantize(QuantizationConfig(q_bits=bits, group_size=128))
    rows = quantizer.quantize(x, q_bits=bits)
    indexes = torch.tensor([5, 0, 3], dtype=torch.int32, device=DEVICE)
    assert torch.equal(quantizer.selective_dequantize(rows, indexes, q_bits=bits), quantizer.dequantize(rows, q_bits=bits)[[5, 0, 3]])


def test_matmul_fp8():
    # Fails if matmul_fp8 without Triton does not multiply by the dequantized weight.
    weight, x = random_tensor(256, 128), random_tensor(4, 256, seed=1)
    quantizer = FP_Quantize(QuantizationConfig(group_size=128))
    data, scale = quantizer.quantize(weight, return_meta_tensor=True)
    torch.testing.assert_close(matmul_fp8(x, data, scale, 128, quantizer).float(), (x @ weight).float(), rtol=0.1, atol=1.5)


def test_quantized_layers():
    # Fails if a QuantizedParameter, which quantizes itself on the accelerator, does not dequantize
    # to its weights.
    config, weight = QuantizationConfig(q_bits=8, group_size=64), random_tensor(32, 64)
    layer = QuantizedLinear(64, 32, quantization_config=config)
    layer.weight = QuantizedParameter(weight, quantization_config=config)
    assert layer.weight.dtype == torch.uint8 and layer.weight.shape == (32, 68)
    x = random_tensor(5, 64)
    torch.testing.assert_close(layer(x).float(), x.float() @ weight.float().t(), rtol=0.1, atol=1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_zero_plus_plus_weights(dtype):
    # Fails if the int8 weights that ZeRO++ gathers do not dequantize to the original weights.
    x = random_tensor(1000, 64, dtype=dtype)
    quantizer = CUDAQuantizer()
    codes, scales = quantizer.quantize(x)
    assert codes.dtype == torch.int8 and codes.shape == x.shape and x.numel() % scales.numel() == 0
    read = quantizer.dequantize(codes, scales, dtype=dtype)
    off = (read.float() - x.float()).abs().reshape(scales.numel(), -1)
    assert read.dtype == dtype and (off <= scales.float() * 1.01 + 2**-7 * x.float().abs().reshape(off.shape)).all()


@pytest.mark.parametrize("bits", [4, 8])
def test_inference_weights(bits):
    # Fails if the float16 kernels give a different result than DeepSpeed's Python code for other
    # dtypes.
    config = {"num_bits": bits, "symmetric": False, "group_size": 64, "group_dim": 1}
    weight = random_tensor(96, 256, dtype=torch.float16)
    codes, scale, least = Quantizer(config).quantize(weight)
    fast = DeQuantizer(config, torch.float16).dequantize(codes, scale, least)
    slow = DeQuantizer({**config, "group_size": 64}, torch.float16)
    plain = slow._decompress_uint4_to_uint8(codes) if bits == 4 else codes
    grouped = slow._dequantize_int8(plain.view(96, 4, 64), scale, least).view(96, 256)
    assert fast.dtype == torch.float16 and torch.equal(fast, grouped)
    assert (fast - weight).abs().max() <= (0.6 if bits == 4 else 0.03)


def test_quantized_gradient_reduction(monkeypatch):
    # Fails if DeepSpeed's reduction cannot use the results of AnyAccel's functions.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name, value in {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0}.items():
        monkeypatch.setenv(name, str(value))
    deepspeed.init_distributed(auto_mpi_discovery=False, verbose=False)
    monkeypatch.setattr(get_accelerator(), "device_count", lambda: 1)  # the number of ranks on this node
    try:
        group = deepspeed.comm.new_group([0])
        gradients = [random_tensor(48, 64, dtype=torch.float32), random_tensor(33, dtype=torch.float32)]
        reduced = all_to_all_quant_reduce(gradients, {"local_0": group, "global_0": group})
        # a row is rounded to four bits twice, each time by at most one step
        off = (reduced[0].float() - gradients[0].flatten()).abs().view(48, 64)
        assert reduced[0].shape == (48 * 64,) and (off <= gradients[0].abs().amax(1, keepdim=True) / 8 * 2.01).all()
        assert torch.equal(reduced[1], gradients[1])  # not quantized
    finally:
        torch.distributed.destroy_process_group()
