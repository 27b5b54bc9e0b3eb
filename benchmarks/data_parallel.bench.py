from runner.declare import Benchmark, Side, Target

SIDE = "two ranks"

benchmark = Benchmark(
    title="DataParallel and torch's Reducer",
    about="""Milliseconds per training step of a model with 10 million parameters, in C++, on two
        ranks with one thread and batch 32 each: AnyAccel's DataParallel, and c10d::Reducer, the class
        behind torch's DistributedDataParallel, over the "shm" backend and over gloo. All have buckets
        of 25 MiB and take turns in the same processes. The parameters are compared before timing.""",
    sides=[Side(SIDE, ["{python}", "{here}/data_parallel.py", "{build}"], env={"DS_ACCELERATOR": "cpu"}, ours=("data_parallel_",))],
    targets=[Target("speed relative to the Reducer over shared memory", lambda n: n[SIDE]["reducer_shm_ms"] / n[SIDE]["data_parallel_ms"], at_least=1.0,
                    unit="times"),
             Target("speed relative to the Reducer over gloo", lambda n: n[SIDE]["reducer_gloo_ms"] / n[SIDE]["data_parallel_ms"], at_least=1.3,
                    unit="times")])
