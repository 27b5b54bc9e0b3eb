"""Program that ragged_test.py runs, and functions for ragged.py: six-bit weights in DeepSpeed's
inference v2. DeepSpeed rounds with the package qtorch. This file replaces it with rounding to the
format's nearest number. DeepSpeed itself computes the scales and calls AnyAccel's op.
"""

import json
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


def rounded_weight(weight):
    """Return a float16 weight after rounding, in float64."""
    from deepspeed.inference.v2.modules.implementations.linear.quantized_linear import fp_quantize
    six, scales = fp_quantize(weight)
    return six.double() * scales.double()


def state(model):
    """Return a model's state in float64, with the layers' matrices rounded."""
    head = model.get_output_embeddings()
    linears = {name + ".weight" for name, module in model.named_modules() if isinstance(module, torch.nn.Linear) and module is not head}
    return {name: rounded_weight(value) if name in linears else value.double() for name, value in model.state_dict().items()}


def linear_errors():
    """Compare DeepSpeed's module with products of the rounded weights. Return the largest error
    relative to the largest result, and the error message for an unsupported size.
    """
    from deepspeed.inference.v2.inference_utils import ActivationType
    from deepspeed.inference.v2.modules.configs import DSLinearConfig
    from deepspeed.inference.v2.modules.implementations.linear.quantized_linear import QuantizedWf6Af16Linear
    errors = {}
    made = lambda inputs, outputs, act: QuantizedWf6Af16Linear(DSLinearConfig(max_tokens=800, in_channels=inputs, out_channels=outputs, activation=act,  # noqa: E731
                                                                             input_dtype=torch.half, output_dtype=torch.half), {})
    for act in (ActivationType.IDENTITY, ActivationType.RELU, ActivationType.SiGLU):
        gated = act == ActivationType.SiGLU
        module, rows = made(192, 256, act), 512 if gated else 256
        weight, bias = (torch.randn(rows, 192) / 10).half(), torch.randn(rows).half()
        held = module.transform_param(weight)
        for tokens in (1, 20, 800):
            x = torch.randn(tokens, 192).half()
            want = x.double() @ rounded_weight(weight).t() + bias
            if gated:
                want = torch.nn.functional.silu(want[:, ::2]) * want[:, 1::2]
            elif act == ActivationType.RELU:
                want = want.relu()
            got = module.forward(x, held, module.transform_param(bias))
            errors[f"{act.name} {tokens}"] = ((got.double() - want).abs().max() / want.abs().max()).item()
    odd = made(192, 320, ActivationType.IDENTITY)
    try:
        odd.forward(x, odd.transform_param((torch.randn(320, 192) / 10).half()))
    except ValueError as error:
        return {"errors": errors, "odd": str(error)}


def main():
    import anyaccel.deepspeed  # noqa: F401
    import deepspeed  # noqa: F401
    print("RESULT " + json.dumps(linear_errors()))


if __name__ == "__main__":
    main()
