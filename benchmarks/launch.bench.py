from runner.declare import Benchmark, Side, Target


def timed(name, *command, needs=(), repeat=5, ours=("",)):
    return Side(name, list(command), timed=True, repeat=repeat, needs=list(needs), ours=ours)


def wall(numbers, name):
    return numbers[name]["wall_ms"]


benchmark = Benchmark(
    title="Launching",
    about="""Milliseconds to run two ranks of `true` from start to end, with all files in the page
        cache. Each figure of a round is the median of several runs. "a shell" starts both in
        parallel and waits, which measures the program itself. Intel's mpiexec comes from the
        package impi-rt. "gone" is the time from a rank's exit with code 1 until the launcher has
        exited and no process of any rank is left. The other rank waits in `sleep`; in the second
        case it and its daemon ignore SIGTERM and are killed with SIGKILL.""",
    sides=[
        timed("a shell", "sh", "-c", "true & true & wait", ours=()),
        timed("anyaccel launch", "{build}/bin/anyaccel", "launch", "-q", "--num_accelerators", "2", "--oversubscribe", "true"),
        timed("anyaccel launch, bound", "{build}/bin/anyaccel", "launch", "-q", "--num_accelerators", "2", "--oversubscribe",
              "--bind_cores_to_rank", "true"),
        timed("a plan of 500 hosts", "sh", "-c", "seq -f 'node%g slots=4' 500 | \"$0\" launch --hostfile /dev/stdin --dry_run --json true > /dev/null",
              "{build}/bin/anyaccel"),
        timed("Intel's mpiexec", "sh", "-c", 'exec "$(dirname "$0")/mpiexec.hydra" -n 2 true', "{python}",
              needs=["sh", "-c", '"$(dirname "$0")/mpiexec.hydra" --version', "{python}"], ours=()),
        timed("torchrun", "{python}", "-m", "torch.distributed.run", "--nproc_per_node", "2", "--no-python", "true",
              needs=["{python}", "-c", "import torch"], repeat=1, ours=()),
        timed("deepspeed", "{python}", "-m", "deepspeed.launcher.runner", "--num_gpus", "2", "--no_python", "--no_local_rank", "true",
              needs=["{python}", "-c", "import deepspeed"], repeat=1, ours=()),
        Side("gone", ["{python}", "{here}/launch_gone.py", "{build}/bin/anyaccel"]),
    ],
    targets=[
        Target("two ranks, overhead over the program itself", lambda n: wall(n, "anyaccel launch") - wall(n, "a shell"), at_most=30, unit="ms"),
        Target("two bound ranks, overhead over the program itself", lambda n: wall(n, "anyaccel launch, bound") - wall(n, "a shell"), at_most=30, unit="ms"),
        Target("a plan of 500 hosts, 2000 ranks, as JSON", lambda n: wall(n, "a plan of 500 hosts"), at_most=100, unit="ms"),
        Target("from a rank's failure until no process is left", lambda n: max(n["gone"]["gone_ms"], n["gone"]["gone_ignoring_ms"]), at_most=1000, unit="ms"),
    ])
