from runner.declare import Benchmark, Side, Target

RMS_NORM = [f"rms_norm_{dtype}_{size}{kind}_us" for dtype in ("fp32", "bf16")
            for size in ("1x2048", "1024x192", "512x2048") for kind in ("", "_train")]
UNSCALE = [f"unscale_{dtype}_{size}_us" for dtype in ("fp32", "bf16") for size in (48000, 4800000)]


def share(number):
    return lambda numbers: numbers["ours"][number] / numbers["torch"][number]


benchmark = Benchmark(
    title="Functions that LibTorch also has",
    about="""Microseconds of AnyAccel's RMSNorm and GradScaler::unscale_(), compared with
        at::rms_norm and at::_amp_foreach_non_finite_check_and_unscale_. "train" is forward and
        backward. The gradients are 48 tensors with the given total number of elements. Both read
        the result on the host.""",
    sides=[
        Side("ours", ["{build}/bin/bench_torch_functions", "ours"], env={"DS_ACCELERATOR": "cpu"}),
        Side("torch", ["{build}/bin/bench_torch_functions", "torch"], env={"DS_ACCELERATOR": "cpu"}, ours=()),
    ],
    targets=[Target(f"{number.removesuffix('_us')}: time relative to torch", share(number), at_most=1.1, unit="x")
             for number in RMS_NORM + UNSCALE])
