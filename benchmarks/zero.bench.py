from runner.declare import Benchmark, Side, Target

HELPER = ["{python}", "{here}/zero.py"]
MODEL = "{build}/benchmarks/models/SmolLM2-135M"
ENV = {"DS_ACCELERATOR": "cpu", "ANYACCEL_BIN": "{build}/bin", "ANYACCEL_CCL": "off"}
STEPS, BATCH = 3, 4


def ours(name, ranks, threads, *options):
    return Side(name, [*HELPER, "ours", MODEL, str(ranks), str(BATCH), str(STEPS), *options], env={**ENV, "OMP_NUM_THREADS": str(threads)})


def ratio(one, other):
    return lambda n: n[one]["tokens_per_second"] / n[other]["tokens_per_second"]


benchmark = Benchmark(
    title="Sharded optimizers",
    about=f"""Full fine-tuning of a model with random weights in the shape of SmolLM2-135M in
        float32, {BATCH} rows of 512 tokens per step. "stage" is the stage of ZeRO; the ranks have
        one core each. "CPUAdam": the optimizer's state is offloaded to host memory, with AnyAccel's
        CPUAdam and DeepSpeed's. DeepSpeed runs transformers' model on its own accelerator over
        gloo.""",
    prepare=[*HELPER, "prepare", MODEL],
    sides=[ours("1 rank, 2 threads", 1, 2), ours("2 ranks, stage 0", 2, 1), ours("2 ranks, stage 1", 2, 1, "--zero-stage", "1"),
           ours("2 ranks, stage 2", 2, 1, "--zero-stage", "2"),
           ours("2 ranks, stage 1, CPUAdam", 2, 1, "--zero-stage", "1", "--offload-optimizer", "cpu"),
           Side("DeepSpeed: 2 ranks, stage 1, CPUAdam", [*HELPER, "deepspeed", MODEL, "2", str(BATCH), str(STEPS)],
                env={"DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}, needs=["{python}", "-c", "import deepspeed, transformers"], ours=())],
    targets=[Target("2 ranks at stage 1 relative to 1 rank with 2 threads", ratio("2 ranks, stage 1", "1 rank, 2 threads"), at_least=0.95, unit="times"),
             Target("speedup over DeepSpeed at stage 1 with CPUAdam", ratio("2 ranks, stage 1, CPUAdam", "DeepSpeed: 2 ranks, stage 1, CPUAdam"),
                    at_least=1.2, unit="times")],
    rounds=3, few_rounds="a round takes several minutes.", warm_up=False)
