"""The function of DeepSpeed's diffusion layers that calls AnyAccel's op, in its three forms. On
sim, tensors are on the device.
"""

import importlib.util

import pytest

if importlib.util.find_spec("deepspeed") is None:
    pytest.skip("deepspeed is not installed", allow_module_level=True)

import anyaccel.deepspeed  # noqa: E402,F401
import torch  # noqa: E402

from deepspeed.accelerator import get_accelerator  # noqa: E402
from deepspeed.ops.transformer.inference import bias_add  # noqa: E402

DEVICE = get_accelerator().current_device_name()


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("image", [False, True])
def test_bias_add(dtype, image):
    # Fails if DeepSpeed's module does not find the op's functions, or passes arguments in a
    # different order.
    x, other = (torch.randn(2, 8, 3, 5).to(dtype).to(memory_format=torch.channels_last) if image else torch.randn(2, 15, 8).to(dtype)
                for _ in range(2))
    b, c = (torch.randn(8).to(dtype) for _ in range(2))
    shape = (8, 1, 1) if image else (8,)
    given = [tensor.to(DEVICE) for tensor in (x, b, other, c)]
    wide = [x.double(), b.double().view(shape), other.double(), c.double().view(shape)]
    error = 4e-3 if dtype == torch.float16 else 1e-6
    for count in (2, 3, 4):
        got = bias_add.nhwc_bias_add(*given[:count])
        assert got.dtype == dtype
        torch.testing.assert_close(got.cpu().double(), sum(wide[:count]), rtol=error, atol=error)
    assert bias_add.spatial_cuda_module.__name__ == "anyaccel.ops.spatial_inference"
