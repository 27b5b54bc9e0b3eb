#!/usr/bin/env python3
"""Run the ops of PyTorch's OpInfo database on the accelerator and compare them with the CPU.

The comparison is bitwise, in float32, on one thread. It covers the first four samples of each op,
each computed twice, and the gradients of two samples. Ops in exceptions.txt are compared as that
file says. The sweep fails if another op differs, or if an op that is listed as different is equal.
The last line shows the counts. PYTHONPATH must contain the package, and DS_ACCELERATOR selects the
accelerator. Exit status 77 means that a requirement is missing.
"""

import argparse
import itertools
import json
import pathlib
import re
import signal
import subprocess
import sys
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
KINDS = {
    "random": "compared bitwise, with the CPU's generator seeded like the device's first draw",
    "uninitialized": "compared by shape and dtype",
    "close": "compared with torch's tolerance",
    "differs": "not equal",
}


def exceptions():
    """Return {op: (kind, reason)} from exceptions.txt."""
    found = {}
    for line in (HERE / "exceptions.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            name, kind, reason = (part.strip() for part in line.split("|"))
            assert kind in KINDS and reason, line
            found[name] = (kind, reason)
    return found


def names():
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    found = []
    for op in op_db:
        if torch.float32 in op.supported_dtypes("cpu"):
            found.append((op.name + ("." + op.variant_test_name if op.variant_test_name else ""), op))
    return found


# --- In the child process, which runs the ops and prints a line before and after each ---


def moved(tree, device):
    import torch
    from torch.utils import _pytree

    def move(leaf):
        if isinstance(leaf, torch.Tensor):
            copy = leaf.detach().clone(memory_format=torch.preserve_format) if leaf.layout is torch.strided else leaf.detach()
            return copy.to(device).requires_grad_(leaf.requires_grad)
        if isinstance(leaf, torch.device) or leaf == "cpu":
            return device
        return leaf

    return _pytree.tree_map(move, tree)


def seed_of_first_draw(seed):
    """Return the CPU seed that reproduces the first draw of a device that is seeded with `seed`.
    This is mix(seed, 1) of hash.h, as in src/backends/sim/generator.cpp.
    """
    mask = (1 << 64) - 1
    z = (seed + 0x9E3779B97F4A7C15 * 2) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def call_as_device(op, sample):
    """Call the op on the CPU so that it draws the same random numbers as on a device. This patches
    torch.manual_seed(), because call() and some ops of the database call it.
    """
    import torch
    seed = torch.manual_seed
    with mock.patch("torch.manual_seed", lambda value: seed(seed_of_first_draw(value))):
        return call(op, sample, torch.device("cpu"))


def call(op, sample, device):
    import torch
    from torch.utils import _pytree
    arguments, keywords, first = moved((sample.args, sample.kwargs, sample.input), device)
    torch.manual_seed(1234)
    out = op.op(first, *arguments, **keywords)
    leaves = [leaf for leaf in _pytree.tree_leaves(out)]
    return [leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]


def gradients(op, sample, device):
    """Return the gradients of the sum of all results, or None if the sample has no gradients."""
    import torch
    from torch.utils import _pytree
    arguments, keywords, first = moved((sample.args, sample.kwargs, sample.input), device)
    torch.manual_seed(1234)
    out = op(first, *arguments, **keywords)
    if sample.output_process_fn_grad is not None:
        out = sample.output_process_fn_grad(out)
    results = [leaf for leaf in _pytree.tree_leaves(out) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    leaves = [leaf for leaf in _pytree.tree_leaves((first, arguments, keywords)) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not results or not leaves:
        return None
    found = torch.autograd.grad(results, leaves, [torch.ones_like(result) for result in results], allow_unused=True)
    return [None if gradient is None else gradient.cpu() for gradient in found]


def differ(ours, reference, kind):
    """Return None if the results are equal, otherwise a description of the difference."""
    import torch
    if len(ours) != len(reference):
        return f"{len(ours)} results, {len(reference)} on the CPU"
    worst = None
    for mine, right in zip(ours, reference):
        if not isinstance(right, torch.Tensor):
            if mine != right and kind != "uninitialized" and not (mine != mine and right != right):
                return f"{mine!r}, {right!r} on the CPU"
            continue
        if mine.shape != right.shape or mine.dtype != right.dtype:
            return f"{mine.dtype}{list(mine.shape)}, {right.dtype}{list(right.shape)} on the CPU"
        if kind != "uninitialized":
            try:
                torch.testing.assert_close(mine, right, equal_nan=True, **({} if kind == "close" else {"rtol": 0, "atol": 0}))
            except AssertionError as error:
                worst = "values: " + " ".join(str(error).split())[:160]
    return worst


def compare(op, device, kind):
    import torch
    for count, sample in enumerate(itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=False), 4), 1):
        try:
            reference = call_as_device(op, sample) if kind == "random" else call(op, sample, torch.device("cpu"))
        except Exception as error:  # if the device fails too, the sample is skipped
            reference = error
        try:
            ours = call(op, sample, device)
        except Exception as error:
            if isinstance(reference, Exception):
                continue
            return f"sample {count}: {type(error).__name__}: " + " ".join(str(error).split())[:200]
        if isinstance(reference, Exception):
            continue
        found = differ(ours, reference, kind)
        if found:
            return f"sample {count}: {found}"
        # The simulator caches the shapes of an op's results, so a repeated call takes another path.
        found = differ(call(op, sample, device), reference, kind)
        if found:
            return f"sample {count}, second call: {found}"
    if kind not in (None, "close") or not op.supports_autograd:
        return None
    for count, sample in enumerate(itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=True), 2), 1):
        try:
            reference = gradients(op, sample, torch.device("cpu"))
        except Exception:
            continue
        found = differ(gradients(op, sample, device), reference, kind) if reference is not None else None
        if found:
            return f"gradient of sample {count}: {found}"
    return None


def add_module(accelerator):
    """Add the torch module of the device type, which torch's Python code needs."""
    import types

    import torch
    kind = accelerator.torch_device(0).type
    if hasattr(torch, kind):
        return
    module = types.ModuleType(f"torch.{kind}")
    module._lazy_init = lambda: None
    module._is_in_bad_fork = lambda: False
    module.is_available, module.device_count = accelerator.is_available, accelerator.device_count
    module.manual_seed_all = accelerator.manual_seed_all
    torch._register_device_module(kind, module)


def child(wanted):
    import warnings

    import torch

    import anyaccel
    warnings.simplefilter("ignore")  # the samples use deprecated ops and unusual arguments
    torch.set_num_threads(1)
    add_module(anyaccel.get_accelerator())
    device = anyaccel.get_accelerator().torch_device(0)
    kinds = exceptions()

    for index, (name, op) in enumerate(names()):
        if index not in wanted:
            continue
        print(json.dumps({"begin": index, "name": name}), flush=True)
        signal.alarm(60)  # terminates this process if an op hangs; the parent reports the op
        try:
            result = compare(op, device, kinds.get(name, (None,))[0])
        except Exception as error:
            result = f"{type(error).__name__}: " + " ".join(str(error).split())[:200]
        signal.alarm(0)
        print(json.dumps({"end": index, "name": name, "differs": result}), flush=True)


# --- In the parent process ---


def sweep(wanted):
    """Return {index: (name, difference or None)}. If a child dies, the op that it was running
    counts as different, and a new child continues.
    """
    results, left = {}, sorted(wanted)
    while left:
        process = subprocess.Popen([sys.executable, __file__, "--child", ",".join(map(str, left))], stdout=subprocess.PIPE, text=True)
        current = None
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            message = json.loads(line)
            if "begin" in message:
                current = message["begin"], message["name"]
            else:
                results[message["end"]] = message["name"], message["differs"]
                current = None
        status = process.wait()
        if status == 0:
            break
        if current is None:
            raise SystemExit(f"opinfo: the sweep's process ended with status {status} before an op")
        results[current[0]] = current[1], f"the process died with status {status}"
        left = [index for index in left if index not in results]
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slice", default="1/1", help="K/N: run every N-th op, starting with the K-th")
    parser.add_argument("--only", help="regular expression for op names")
    parser.add_argument("--json", type=pathlib.Path, help="write all results to this file")
    parser.add_argument("--at-least", type=int, default=0, help="minimum number of ops that match the CPU")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(set(map(int, arguments.child.split(","))))
        return 0
    try:
        known = [name for name, _ in names()]
    except ImportError as error:
        print(f"SKIP: {error}")
        return 77
    part, parts = map(int, arguments.slice.split("/"))
    wanted = [i for i, name in enumerate(known) if i % parts == part - 1 and (not arguments.only or re.search(arguments.only, name))]
    listed = exceptions()
    wrong = [f"{name}: listed in exceptions.txt, but the op does not exist" for name in listed if name not in known]
    results = sweep(wanted)
    equal = by_shape = exempt = 0
    for index in sorted(results):
        name, found = results[index]
        kind = listed.get(name, (None,))[0]
        if found is None and kind != "differs":
            by_shape += kind == "uninitialized"
            equal += kind != "uninitialized"
        elif found is None:
            wrong.append(f"{name}: equal, but exceptions.txt says that it differs; remove it there")
        elif kind == "differs":
            exempt += 1
        else:
            wrong.append(f"{name}: {found}")
    if arguments.json:
        arguments.json.write_text(json.dumps({name: found for name, found in results.values()}, indent=1))
    for line in wrong:
        print(line)
    if equal < arguments.at_least:
        wrong.append("too few ops are equal")
    print(f"opinfo: {equal} of {len(wanted)} ops equal to the CPU, {by_shape} without values compared by shape, "
          f"{exempt} listed as different, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
