from runner.declare import Benchmark, Side, Target

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONPATH": "{build}/python"}


def side(label, device):
    return Side(label, ["{python}", "{here}/profile_overhead.py", device], env={"DS_ACCELERATOR": device, **ENVIRONMENT})


benchmark = Benchmark(
    title="Overhead of `anyaccel profile`",
    about="""A training step (forward pass, backward pass, AdamW) of a transformer with 135M parameters in
        PyTorch, batch of 1, 128 tokens, one thread. Phases with and without recording alternate in
        one process; `low` and `high` bound the 95 % confidence interval of the ratio.""",
    sides=[side("CPU", "cpu"), side("sim", "sim")],
    targets=[Target(f"{label}: time of a recorded step relative to a plain one", lambda sides, label=label: sides[label]["ratio"],
                    at_most=1.10, unit="times") for label in ("CPU", "sim")])
