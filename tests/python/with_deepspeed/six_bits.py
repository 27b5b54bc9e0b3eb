"""Weights of six bits under DeepSpeed's inference v2. Its function that rounds asks for the package qtorch, which here stands for rounding to the nearest
number of the format; DeepSpeed itself makes scales and calls our op."""

import sys
import types

import torch

NUMBERS = torch.tensor(sorted({sign * (mantissa / 16 if exponent == 0 else (4 + mantissa) * 2.0**(exponent - 5))
                               for sign in (1, -1) for exponent in range(8) for mantissa in range(4)}))


def float_quantize(x, exponent, mantissa, rounding):
    assert (exponent, mantissa, rounding) == (3, 2, "nearest")
    return NUMBERS[torch.bucketize(x, (NUMBERS[1:] + NUMBERS[:-1]) / 2)]


sys.modules["qtorch"] = types.ModuleType("qtorch")
sys.modules["qtorch.quant"] = types.ModuleType("qtorch.quant")
sys.modules["qtorch.quant"].float_quantize = float_quantize


def meant(weight):
    """What a float16 weight is after rounding, in float64."""
    from deepspeed.inference.v2.modules.implementations.linear.quantized_linear import fp_quantize
    six, scales = fp_quantize(weight)
    return six.double() * scales.double()


def state(model):
    """A model's state with the layers' matrices rounded, in float64."""
    head = model.get_output_embeddings()
    linears = {name + ".weight" for name, module in model.named_modules() if isinstance(module, torch.nn.Linear) and module is not head}
    return {name: meant(value) if name in linears else value.double() for name, value in model.state_dict().items()}
