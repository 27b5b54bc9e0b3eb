"""DeepSpeed's own optimizer classes on AnyAccel's ops, compared with torch's optimizers or the
formula. On sim, the fused ones update device tensors.
"""

import functools
import importlib.util

import pytest

if importlib.util.find_spec("deepspeed") is None:
    pytest.skip("deepspeed is not installed", allow_module_level=True)

import anyaccel.deepspeed  # noqa: E402,F401
import cpuinfo  # noqa: E402
import torch  # noqa: E402

import plain_optimizers as plain  # noqa: E402
from deepspeed.accelerator import get_accelerator  # noqa: E402
from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad  # noqa: E402
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam  # noqa: E402
from deepspeed.ops.lamb import FusedLamb  # noqa: E402
from deepspeed.ops.lion import DeepSpeedCPULion, FusedLion  # noqa: E402

# Each of DeepSpeed's host optimizers queries the CPU's name, which takes a second.
cpuinfo.get_cpu_info = functools.cache(cpuinfo.get_cpu_info)
DEVICE = get_accelerator().current_device_name()
SHAPES = ((7,), (33, 65), (1,), (3, 5, 11))
STEPS = 6
ADAM = {"lr": 1e-2, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}
LION = {"lr": 1e-2, "betas": (0.9, 0.99), "weight_decay": 0.1}
HOST = [
    ("adamw", DeepSpeedCPUAdam, {**ADAM}, torch.optim.AdamW, ADAM),
    ("adam", DeepSpeedCPUAdam, {**ADAM, "adamw_mode": False}, torch.optim.Adam, ADAM),
    ("adam without bias correction", DeepSpeedCPUAdam, {**ADAM, "bias_correction": False}, plain.AdamW, {**ADAM, "bias_correction": False}),
    ("adagrad", DeepSpeedCPUAdagrad, {"lr": 1e-2, "weight_decay": 0.1}, torch.optim.Adagrad, {"lr": 1e-2, "weight_decay": 0.1}),
    ("lion", DeepSpeedCPULion, LION, plain.Lion, LION),
]
FUSED = [
    ("adamw", FusedAdam, {**ADAM}, torch.optim.AdamW, ADAM),
    ("adam", FusedAdam, {**ADAM, "adam_w_mode": False}, torch.optim.Adam, ADAM),
    ("adam without bias correction", FusedAdam, {**ADAM, "bias_correction": False}, plain.AdamW, {**ADAM, "bias_correction": False}),
    ("lion", FusedLion, LION, plain.Lion, LION),
    ("lamb", FusedLamb, ADAM, plain.Lamb, ADAM),
]
names = lambda cases: [case[0] for case in cases]  # noqa: E731


def parameters(device="cpu", dtype=torch.float32):
    numbers = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=numbers).to(dtype).to(device)) for shape in SHAPES]


def groups(params, lr):
    """Return two parameter groups. The second has its own learning rate."""
    return [{"params": params[:2]}, {"params": params[2:], "lr": 3 * lr}]


def set_gradients(step, *lists):
    numbers = torch.Generator().manual_seed(step)
    for index, shape in enumerate(SHAPES):
        gradient = torch.randn(shape, generator=numbers)
        for params in lists:
            params[index].grad = gradient.to(params[index].dtype).to(params[index].device)


def run(cls, options, want_cls, want_options, device, dtype=torch.float32):
    """Return both optimizers' parameters after STEPS steps, and the tested optimizer. The reference
    uses float32 on the host.
    """
    ours, want = parameters(device, dtype), parameters()
    for mine, theirs in zip(ours, want):
        theirs.data.copy_(mine.detach().cpu())
    optimizer, reference = cls(groups(ours, options["lr"]), **options), want_cls(groups(want, options["lr"]), **want_options)
    for step in range(STEPS):
        set_gradients(step, ours, want)
        if dtype != torch.float32:
            for mine, theirs in zip(ours, want):
                theirs.grad.copy_(mine.grad.cpu())
        optimizer.step()
        reference.step()
    return ours, want, optimizer


@pytest.mark.parametrize("case", HOST, ids=names(HOST))
def test_host_optimizers(case):
    # Fails if the order of arguments of create_*, *_update or destroy_* differs from that in
    # DeepSpeed's class.
    ours, want, optimizer = run(*case[1:], device="cpu")
    for mine, theirs in zip(ours, want):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    assert {state["step"] for state in optimizer.state.values()} == {STEPS}


@pytest.mark.parametrize("case", HOST, ids=names(HOST))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("wide", [True, False], ids=["states float32", "states as parameters"])
def test_host_optimizers_in_half_precision(case, dtype, wide):
    # Fails if a dtype that DeepSpeed's classes use for parameters or states is rejected or misread.
    name, cls, options, want_cls, want_options = case
    ours, want, optimizer = run(cls, {**options, "fp32_optimizer_states": wide}, want_cls, want_options, "cpu", dtype)
    # each step rounds parameters, which are between 1 and 4, to 8 or 11 bits
    error = STEPS * (2.0**-7 if dtype == torch.bfloat16 else 2.0**-10)
    for mine, theirs in zip(ours, want):
        # if Lion's sum is near zero, rounding decides its sign
        near = torch.isclose(mine.float(), theirs, rtol=error, atol=error).float().mean()
        assert near >= (0.995 if name == "lion" else 1.0), near
    assert {state[key].dtype for state in optimizer.state.values() for key in state if key != "step"} == {torch.float32 if wide else dtype}


# FusedLamb requires float32 parameters.
@pytest.mark.parametrize("case, dtype", [(case, dtype) for case in FUSED for dtype in (torch.float32, torch.bfloat16)
                                         if case[1] is not FusedLamb or dtype == torch.float32],
                         ids=lambda value: value[0] if isinstance(value, tuple) else str(value))
def test_fused_optimizers(case, dtype):
    # Fails if the order of arguments of a fused op differs from that in DeepSpeed's class. Stock
    # DeepSpeed cannot load FusedLion on a CPU.
    ours, want, _ = run(*case[1:], device=DEVICE, dtype=dtype)
    error = 2e-5 if dtype == torch.float32 else STEPS * 2.0**-7
    for mine, theirs in zip(ours, want):
        torch.testing.assert_close(mine.float().cpu(), theirs, rtol=error, atol=error / 10 if dtype == torch.float32 else error)


def test_parameters_on_device_and_host():
    # Fails if CPUAdam and FusedAdam, used together as in hybrid offload, follow different formulas.
    ours, want = parameters(), parameters()
    for index in (0, 2):
        ours[index] = torch.nn.Parameter(ours[index].detach().to(DEVICE))
    host, fused, reference = DeepSpeedCPUAdam(ours[1::2], **ADAM), FusedAdam(ours[0::2], **ADAM), torch.optim.AdamW(want, **ADAM)
    for step in range(STEPS):
        set_gradients(step, ours, want)
        for optimizer in (host, fused, reference):
            optimizer.step()
    for mine, theirs in zip(ours, want):
        torch.testing.assert_close(mine.cpu(), theirs, rtol=1e-5, atol=1e-6)


def test_adagrad_with_sparse_gradient():
    # Fails if the values of a sparse gradient, which are views, are updated in a copy.
    ours, want = (torch.nn.Embedding(10, 4, sparse=True, _weight=torch.arange(40.0).view(10, 4)) for _ in range(2))
    optimizer, reference = DeepSpeedCPUAdagrad(ours.parameters(), lr=0.1), torch.optim.Adagrad(want.parameters(), lr=0.1)
    for rows in ([1, 3], [3, 7, 9]):
        for table, stepper in ((ours, optimizer), (want, reference)):
            stepper.zero_grad()
            table(torch.tensor(rows)).pow(2).sum().backward()
            # DeepSpeed indexes with the [1, n] indices of a coalesced gradient
            table.weight.grad = table.weight.grad.coalesce()
            stepper.step()
    torch.testing.assert_close(ours.weight, want.weight, rtol=1e-5, atol=1e-6)


def test_subgroups_step_and_roll_back():
    # Fails if adam_rollback does not undo adam_update, as superoffload requires.
    first = parameters()[1]
    start = first.detach().clone()
    optimizer = DeepSpeedCPUAdam([first], **ADAM)
    first.grad = torch.ones_like(first)
    optimizer.step_subgroup(0)
    moved = first.detach().clone()
    assert not torch.equal(moved, start)
    optimizer.step_subgroup(0)
    optimizer.rollback_subgroup(0)
    torch.testing.assert_close(first.detach(), moved, rtol=1e-4, atol=1e-5)
    assert optimizer.state[0]["step"] == 1


def test_state_dict_and_new_optimizer():
    # Fails if loading a state dict does not resume the run, or a new optimizer reuses the ID of a
    # deleted one.
    ours, want = parameters(), parameters()
    optimizer, reference = DeepSpeedCPUAdam(ours, **ADAM), torch.optim.AdamW(want, **ADAM)
    for step in range(STEPS):
        set_gradients(step, ours, want)
        optimizer.step()
        reference.step()
        if step == 2:
            saved = optimizer.state_dict()
            del optimizer
            optimizer = DeepSpeedCPUAdam(ours, **ADAM)
            optimizer.load_state_dict(saved)
    for mine, theirs in zip(ours, want):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
