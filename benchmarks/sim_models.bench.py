from runner.declare import Benchmark, Side, Target

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONPATH": "{build}/python"}
CHECKED = "sim, checked"
SIZES = ("1M", "10M", "gpt2-small")


def side(label, device, **variables):
    return Side(label, ["{python}", "{here}/sim_models.py", device], env={"DS_ACCELERATOR": device, **ENVIRONMENT, **variables})


def over_cpu(label, size):
    return lambda sides: sides[label][f"{size}_step_ms"] / sides["CPU"][f"{size}_step_ms"]


benchmark = Benchmark(
    title="Training steps on the simulated accelerator",
    about="""Milliseconds per training step (forward pass, backward pass, AdamW) of GPT-2-like
        models in PyTorch on the CPU and on the simulated accelerator, with one thread each. 1M:
        batch of 4, 128 tokens; 10M and gpt2-small (124M parameters): batch of 4, 256 tokens.""",
    sides=[side("CPU", "cpu"), side("sim", "sim"), side(CHECKED, "sim", SIM_CHECK="report")],
    targets=[Target(f"{size}: time of a step relative to the CPU{', checked' if label == CHECKED else ''}", over_cpu(label, size),
                    at_most=2.5 if label == CHECKED else 1.5, unit="times") for size in SIZES for label in ("sim", CHECKED)])
