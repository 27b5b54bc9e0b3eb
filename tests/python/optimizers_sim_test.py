"""The optimizers' ops on the simulated accelerator: with states in host memory as in ZeRO-Offload,
and with all tensors on the device.
"""

import os

import pytest

os.environ["DS_ACCELERATOR"] = "sim"
os.environ["SIM_LATENCY"] = "50us"

import torch  # noqa: E402

import anyaccel  # noqa: E402

if "sim" not in anyaccel.registered_backends():
    pytest.skip("this build has no simulator", allow_module_level=True)
accelerator = anyaccel.get_accelerator()
torch.set_num_threads(1)
DEVICE = "sim:0"
FLAG = torch.zeros(1, dtype=torch.int32)

load = lambda name: accelerator.create_op_builder(name).load()  # noqa: E731
ADAM, ADAGRAD, LION = load("CPUAdamBuilder"), load("CPUAdagradBuilder"), load("CPULionBuilder")
FUSED_ADAM, FUSED_LION, FUSED_LAMB = load("FusedAdamBuilder"), load("FusedLionBuilder"), load("FusedLambBuilder")
ADAM.create_adam(5, 1e-2, 0.9, 0.99, 1e-8, 0.1, True, False)
ADAGRAD.create_adagrad(5, 1e-2, 1e-10, 0.1, False)
LION.create_lion(5, 1e-2, 0.9, 0.99, 0.1, False)

# Functions of a step number, parameters, gradients and two states. Some do not use the second
# state.
STEPS = {
    "adam": lambda n, p, g, m, v: ADAM.adam_update(5, n, 1e-2, 0.9, 0.99, 1e-8, 0.1, True, p, g, m, v),
    "adam list": lambda n, p, g, m, v: ADAM.adam_update_list(5, n, 1e-2, 0.9, 0.99, 1e-8, 0.1, True, [p], [g], [m], [v]),
    "adagrad": lambda n, p, g, m, v: ADAGRAD.adagrad_update(5, n, 1e-2, 1e-10, 0.1, p, g, m),
    "adagrad list": lambda n, p, g, m, v: ADAGRAD.adagrad_update_list(5, n, 1e-2, 1e-10, 0.1, [p], [g], [m]),
    "lion": lambda n, p, g, m, v: LION.lion_update(5, n, 1e-2, 0.9, 0.99, 0.1, p, g, m),
    "lion list": lambda n, p, g, m, v: LION.lion_update_list(5, n, 1e-2, 0.9, 0.99, 0.1, [p], [g], [m]),
    "fused adam": lambda n, p, g, m, v: FUSED_ADAM.multi_tensor_adam(
        65536, FLAG.to(p.device), [[g], [p], [m], [v]], 1e-2, 0.9, 0.99, 1e-8, n, 1, 1, 0.1),
    "fused lion": lambda n, p, g, m, v: FUSED_LION.multi_tensor_lion(
        65536, FLAG.to(p.device), [[g], [p], [m]], 1e-2, 0.9, 0.99, n, 0.1),
    "fused lamb": lambda n, p, g, m, v: FUSED_LAMB.lamb(
        p, p.new_empty(0), m, v, g, 1e-2, 0.9, 0.99, 10.0, 0.01, 1e-6, 1.0, n, 1, 1, 0.1),
}


def train(step, device):
    """Train like ZeRO-Offload: the model is on the device; master parameters, gradients and
    optimizer states are in pinned host memory.
    """
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 37), torch.nn.GELU(), torch.nn.Linear(37, 3))
    pinned = (lambda x: accelerator.pin_memory(x)) if device != "cpu" else (lambda x: x)
    masters = [[pinned(p.detach().clone())] + [pinned(torch.zeros_like(p.detach())) for _ in range(3)]
               for p in model.parameters()]
    x, y = torch.randn(64, 16).to(device), torch.randn(64, 3).to(device)
    model.to(device)
    losses = []
    for number in range(1, 13):
        loss = torch.nn.functional.mse_loss(model(x), y)
        model.zero_grad()
        loss.backward()
        for p, (_, grad, _, _) in zip(model.parameters(), masters):
            grad.copy_(p.grad, non_blocking=True)
        if device != "cpu":
            accelerator.synchronize()
        for p, (master, grad, m, v) in zip(model.parameters(), masters):
            step(number, master, grad, m, v)
            p.data.copy_(master, non_blocking=True)
        losses.append(loss.item())
    return losses


# Fails if a step misses gradients that the device has computed, or the device misses the new
# parameters.
@pytest.mark.parametrize("name", STEPS)
def test_states_in_host_memory(name):
    ours, reference = train(STEPS[name], DEVICE), train(STEPS[name], "cpu")
    assert ours == pytest.approx(reference, rel=1e-4)
    assert ours[-1] < 0.97 * ours[0]


# Fails if a step on device tensors runs before the work that fills them, or gives different bits
# than on the host.
@pytest.mark.parametrize("name", STEPS)
def test_tensors_on_the_device(name):
    torch.manual_seed(1)
    host = [torch.randn(1001), torch.randn(1001), torch.zeros(1001), torch.zeros(1001)]
    there = [x.to(DEVICE, non_blocking=True) for x in host]
    before = host[0].clone()
    for number in (1, 2):
        host[1].mul_(2)
        there[1].mul_(2)
        STEPS[name](number, *host)
        STEPS[name](number, *there)
    assert not torch.equal(host[0], before)
    assert all(x.device.type == "sim" and torch.equal(x.cpu(), y) for x, y in zip(there, host))


# Fails if the empty host tensor that DeepSpeed's FusedLamb passes for "no copy" is rejected because
# of its device.
def test_lamb_without_a_copy():
    there = [torch.full((100,), x, device=DEVICE) for x in (2.0, 0.0, 0.0, 1.0)]
    answer = FUSED_LAMB.lamb(there[0], torch.tensor([], dtype=torch.float), *there[1:], 1e-2, 0.9, 0.99, 10.0, 0.01, 1e-6, 1.0, 1, 1, 1, 0.0)
    assert answer.device.type == "sim" and answer.item() == pytest.approx(2.0, rel=1e-3)
    # The bias correction scales the step, so u = 0.1 / 0.1 and |p| / |u| = 2 / 1.
    # The result is p - 0.01 * 2 * 1.
    torch.testing.assert_close(there[0].cpu(), torch.full((100,), 1.98), rtol=1e-4, atol=0)


# Fails if a step accepts host and device tensors together, or changes a tensor before it raises the
# error.
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("odd", [0, 1, 2])
def test_mixed_devices_are_rejected(name, odd):
    given = [torch.ones(10, device=DEVICE if i == odd else "cpu") for i in range(4)]
    with pytest.raises(RuntimeError, match="on the same device.*sim:0 and cpu"):
        STEPS[name](1, *given)
    assert all(x.cpu().eq(1).all() for x in given)
