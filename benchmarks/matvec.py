"""Times the product of a row vector and an integer matrix with AnyAccel, LibTorch's packed kernels and
ggml (llama.cpp's library).

usage: matvec.py SECONDS [BITS] [SHAPES]

SHAPES are outputs x inputs, for example 2048x2048,4096x4096. Prints median microseconds per
product; each product is one call. The libraries alternate in one process, all with 2 threads. Each
cycles through copies of its matrix that together fill 128 MiB, so that weights are read from memory
as in decoding. ggml runs with both layouts of llama.cpp, plain and repacked for this processor;
LibTorch runs with float32 and bfloat16 rows.
"""
import itertools
import json
import statistics
import sys
import time

import torch

import anyaccel
import ggml_products

THREADS = 2
GROUP = 128  # inputs per scale (AnyAccel, LibTorch's int4); LibTorch's int8 has one scale per output, ggml one per 32 inputs
WORKING_SET = 128 << 20
LARGEST_ERROR = {8: 0.02, 4: 0.15}


def ours(weight, bits):
    op, quantize = torch.ops.anyaccel.inference_linear.default, torch.ops.anyaccel.inference_quantize.default
    made, scales = quantize(weight, bits, GROUP)
    return made.nbytes, lambda: (made.clone(), scales.clone()), lambda x, w: op(x, *w)


def libtorch_int4(weight, dtype):
    outputs, inputs = weight.shape
    groups = weight.view(outputs, -1, GROUP)
    low, high = groups.amin(2, keepdim=True), groups.amax(2, keepdim=True)
    scale = (high - low) / 15
    codes = ((groups - low) / scale).round().to(torch.int32).view(outputs, inputs)
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
    numbers = torch.stack([scale, low + 8 * scale], -1)[:, :, 0].transpose(0, 1).contiguous().to(dtype)
    op = torch.ops.aten._weight_int4pack_mm_for_cpu.default
    return packed.nbytes, lambda: (packed.clone(), numbers.clone()), lambda x, w: op(x, w[0], GROUP, w[1])


def libtorch_int8(weight, dtype):
    scale = weight.abs().amax(1) / 127
    codes, scale = (weight / scale[:, None]).round().to(torch.int8), scale.to(dtype)
    op = torch.ops.aten._weight_int8pack_mm.default
    return codes.nbytes, lambda: (codes.clone(), scale.clone()), lambda x, w: op(x, *w)


def sides_of(weight, bits):
    """Return {library: (bytes per matrix, copy function, product function, dtype of the row)}."""
    libtorch = libtorch_int4 if bits == 4 else libtorch_int8
    out = {"anyaccel": (*ours(weight, bits), torch.float32),
           "libtorch_fp32": (*libtorch(weight, torch.float32), torch.float32),
           "libtorch_bf16": (*libtorch(weight, torch.bfloat16), torch.bfloat16)}
    for name, made in ggml_products.sides(weight, "Q4_0" if bits == 4 else "Q8_0", THREADS).items():
        out[name] = (*made, torch.float32)
    return out


def measure(outputs, inputs, bits, seconds):
    numbers = torch.Generator().manual_seed(0)
    weight, row = torch.randn(outputs, inputs, generator=numbers), torch.randn(1, inputs, generator=numbers)
    want = row @ weight.t()
    rounds, times, copies = {}, {}, 0
    for name, (size, another, product, dtype) in sides_of(weight, bits).items():
        x = row.to(dtype)
        copies = copies or max(2, -(-WORKING_SET // size))
        matrices = [another() for _ in range(copies)]
        error = ((product(x, matrices[0]).float() - want).norm() / want.norm()).item()
        assert error < LARGEST_ERROR[bits], f"{name}: relative error {error}, expected below {LARGEST_ERROR[bits]}"
        rounds[name] = (product, x, matrices)
        times[name] = []
    end, orders = time.perf_counter() + seconds, itertools.cycle((list(rounds), list(reversed(rounds))))
    while time.perf_counter() < end or len(times["anyaccel"]) < 3:
        for name in next(orders):
            product, x, matrices = rounds[name]
            product(x, matrices[-1])  # gives the previous library's threads time to stop spinning
            begin = time.perf_counter()
            for matrix in matrices:
                product(x, matrix)
            times[name].append((time.perf_counter() - begin) / len(matrices) * 1e6)
    return {name: statistics.median(each) for name, each in times.items()}


def main():
    seconds = float(sys.argv[1])
    bits = [int(sys.argv[2])] if len(sys.argv) > 2 else [4, 8]
    shapes = (sys.argv[3] if len(sys.argv) > 3 else "2048x2048,5632x2048,2048x5632,4096x4096,11008x4096").split(",")
    torch.set_num_threads(THREADS)
    anyaccel.get_accelerator().create_op_builder("DecoderInferenceBuilder").load()
    out = {}
    for each in bits:
        for shape in shapes:
            found = measure(*map(int, shape.split("x")), each, seconds)
            print(each, shape, {name: round(value, 1) for name, value in found.items()}, file=sys.stderr)
            out |= {f"{name}_int{each}_{shape}_us": value for name, value in found.items()}
    print(json.dumps(out))


main()
