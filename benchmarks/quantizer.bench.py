from runner.declare import Benchmark, Side, Target

PROGRAM = ["{python}", "{here}/quantizer.py"]
ENVIRONMENT = {"PYTHONPATH": "{build}/python", "DS_ACCELERATOR": "cpu"}
# By default, glibc maps and unmaps memory for each result, because results are large. A call then
# mostly measures how long the kernel takes to zero pages. With these settings, glibc reuses the
# memory.
KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "100000000000"}
BITS = {"int8": 8, "int4": 4, "fp8": 8, "fp12": 12, "fp6": 6}
WORKS = [(work, form, dtype) for form in BITS for dtype in ("fp32", "bf16") for work in ("quantize", "dequantize") if dtype == "bf16" or form[0] == "i"]


def faster(side, work):
    return lambda numbers: numbers[side][f"torch_{work}_2t_ms"] / numbers[side][f"ours_{work}_2t_ms"]


def of_bandwidth(work, form, dtype):
    """Return the bandwidth relative to that of a plain copy.

    Each value counts as the size of its dtype plus the size of its code.
    """
    size = (4 if dtype == "fp32" else 2) + BITS[form] / 8
    return lambda numbers: size / 8 * numbers["memory kept"][f"copy_{work}_{form}_{dtype}_2t_ms"] / numbers["memory kept"][f"ours_{work}_{form}_{dtype}_2t_ms"]


benchmark = Benchmark(
    title="Quantizers on the processor",
    about="""Milliseconds to quantize 64 M values (2^26) and to dequantize them: symmetric int8 and
        int4 in groups of 2048, and floats of 8, 12 and 6 bits in groups of 512. All implementations
        alternate on the same arrays in one process. Beforehand, codes and values are compared with
        plain torch's, except for fp8, whose largest value differs in torch. "copy" is torch's copy
        of 64 M float32 values into existing memory. Results of int8 and int4 are new tensors. With
        "memory new", glibc uses its default settings, and maps and unmaps memory for each result.
        With "memory kept", all implementations run with MALLOC_MMAP_MAX_=0 and
        MALLOC_TRIM_THRESHOLD_, so that a result reuses the memory of the previous one.""",
    rounds=3, few_rounds="a round takes several minutes, and the implementations alternate within it.", warm_up=False,
    sides=[Side("memory kept", [*PROGRAM, "ours"], env={**ENVIRONMENT, **KEPT}, ours=("ours_",)),
           Side("memory new", [*PROGRAM, "ours"], env=ENVIRONMENT, ours=("ours_",)),
           Side("torchao, memory kept", [*PROGRAM, "torchao"], env={**ENVIRONMENT, **KEPT}, needs=["{python}", "-c", "import torchao"],
                ours=())],
    targets=[Target(f"{work} {form}, {dtype}, 2 threads, {side}: speedup over plain torch", faster(side, f"{work}_{form}_{dtype}"), at_least=1.2, unit="x")
             for side in ("memory kept", "memory new") for work, form, dtype in WORKS if form in ("int8", "int4", "fp8")] +
            [Target(f"{work} {form}, {dtype}, 2 threads: bandwidth relative to the copy", of_bandwidth(work, form, dtype), at_least=0.9, unit="x")
             for work, form, dtype in WORKS])
