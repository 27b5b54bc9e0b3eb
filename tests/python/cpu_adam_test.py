"""CPUAdam through its builder, called as in DeepSpeed's Python code and compared with torch's
optimizers.
"""

import copy
import os
import subprocess
import sys
import time

import pytest
import torch

import anyaccel

ADAM = anyaccel.get_accelerator().create_op_builder("CPUAdamBuilder").load()
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.fixture
def adam():
    ADAM.create_adam(7, 1e-2, 0.9, 0.99, 1e-8, 0.1, True, False)
    yield ADAM
    ADAM.destroy_adam(7)


def tensors(n=100, dtype=torch.float32, state=torch.float32, grad=None, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, generator=generator).to(dtype), torch.randn(n, generator=generator).to(grad or dtype),
            torch.zeros(n, dtype=state), torch.zeros(n, dtype=state)]


def update(adam, step, given, number=7, **changed):
    values = {"lr": 1e-2, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "weight_decay": 0.1, "bias_correction": True}
    adam.adam_update(number, step, *(values | changed).values(), *given)


class Optimizer(torch.optim.Optimizer):
    """An optimizer that calls the op as DeepSpeedCPUAdam does."""

    def __init__(self, params, adamw):
        super().__init__(params, {"lr": 1e-2})
        ADAM.create_adam(11, 1e-2, 0.9, 0.99, 1e-8, 0.1, adamw, False)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                state["step"] += 1
                ADAM.adam_update(11, state["step"], group["lr"], 0.9, 0.99, 1e-8, 0.1, True, p.data, p.grad.data,
                                 state["exp_avg"], state["exp_avg_sq"])


# Fails if a step differs from torch's AdamW or Adam: the losses diverge within a few steps.
@pytest.mark.parametrize("adamw", [True, False])
def test_training_matches_torch(adamw):
    torch.manual_seed(0)
    before = torch.get_num_threads()
    # Other tests run in parallel. Threads that spin while they wait would take CPU time from them.
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 37), torch.nn.GELU(), torch.nn.Linear(37, 3))
    other = copy.deepcopy(model)
    ours = Optimizer(model.parameters(), adamw)
    kind = torch.optim.AdamW if adamw else torch.optim.Adam
    theirs = kind(other.parameters(), lr=1e-2, betas=(0.9, 0.99), weight_decay=0.1)
    x, y = torch.randn(64, 16), torch.randn(64, 3)
    losses = []
    for _ in range(30):
        for net, optimizer in ((model, ours), (other, theirs)):
            loss = torch.nn.functional.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    torch.set_num_threads(before)
    assert losses[-1] < 0.9 * losses[0]
    for p, q in zip(model.parameters(), other.parameters()):
        torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)


# Fails if a combination of dtypes is unsupported or converted incorrectly.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("own_state", [False, True])
@pytest.mark.parametrize("float_grad", [False, True])
def test_dtypes(adam, dtype, own_state, float_grad):
    state = dtype if own_state else torch.float32
    p, g, m, v = tensors(1001, dtype, state, torch.float32 if float_grad else dtype)
    q = p.float().clone()
    update(adam, 1, (p, g, m, v))
    expected = q * (1 - 1e-2 * 0.1) - 1e-2 * g.float() / (g.float().abs() + 1e-8)
    torch.testing.assert_close(p, expected.to(dtype), rtol=1e-5 if dtype == torch.float32 else 1e-2, atol=1e-6)
    torch.testing.assert_close(m, (0.1 * g.float()).to(state), rtol=1e-2 if own_state else 1e-5, atol=1e-7)


# Fails if results depend on the number of threads or a view's offset, or a step writes outside the
# view.
def test_threads_and_views(adam):
    n = 300_000
    given = tensors(n)
    whole, parts = [x.clone() for x in given], [torch.nn.functional.pad(x, (3, 5), value=9.0) for x in given]
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    update(adam, 3, whole)
    torch.set_num_threads(4)
    update(adam, 3, [x[3:-5] for x in parts])
    torch.set_num_threads(before)
    for a, b in zip(whole, parts):
        assert torch.equal(a, b[3:-5])
        assert b[:3].eq(9).all() and b[-5:].eq(9).all()


# Fails if updating a list differs from updating its tensors one by one, for any order, sizes and
# dtypes.
def test_list(adam):
    sizes = (0, 1, 40_000, 17, 100_000, 5)
    ours = [tensors(n, DTYPES[i % 3], seed=i) for i, n in enumerate(sizes)]
    single = [[x.clone() for x in four] for four in ours]
    adam.adam_update_list(7, 2, 1e-2, 0.9, 0.99, 1e-8, 0.1, True, *map(list, zip(*ours)))
    for four in single:
        update(adam, 2, four)
    assert all(torch.equal(a, b) for x, y in zip(ours, single) for a, b in zip(x, y))


# Fails if a transposed dense weight is rejected, or its elements are matched with the wrong state.
def test_transposed_weight(adam):
    plain = [x.view(20, 30) for x in tensors(600)]
    turned = [x.t().contiguous().t() for x in plain]
    update(adam, 1, plain)
    update(adam, 1, turned)
    assert all(torch.equal(a, b) for a, b in zip(plain, turned))


# Fails if invalid tensors are accepted, or a tensor changes before the error.
@pytest.mark.parametrize("what, change", [
    ("shape of grads", lambda x: x.__setitem__(1, x[1][:-1])),
    ("dtype of exp_avg", lambda x: x.__setitem__(2, x[2].half())),
    ("dtypes of exp_avg and exp_avg_sq", lambda x: (x.__setitem__(0, x[0].half()), x.__setitem__(3, x[3].half()))),
    ("dtype of params", lambda x: x.__setitem__(0, x[0].double())),
    ("memory layout", lambda x: x.__setitem__(1, torch.ones(200)[::2])),
])
def test_invalid_tensors(adam, what, change):
    given = tensors()
    change(given)
    before = [x.clone() for x in given]
    with pytest.raises(ValueError, match=what):
        update(adam, 1, given)
    with pytest.raises(ValueError, match=what):
        adam.adam_update_list(7, 1, 1e-2, 0.9, 0.99, 1e-8, 0.1, True, *([a, b] for a, b in zip(tensors(), given)))
    assert all(torch.equal(a, b) for a, b in zip(given, before))


@pytest.mark.parametrize("what, step, number, changed", [
    ("step is out of range", 0, 7, {}), ("step is out of range", -1, 7, {"bias_correction": False}),
    ("unknown optimizer id", 1, 8, {}), ("beta1", 1, 7, {"beta1": 1.0}), ("beta2", 1, 7, {"beta2": -0.1}),
    ("eps", 1, 7, {"eps": -1.0}), ("weight_decay", 1, 7, {"weight_decay": float("nan")}),
    ("lr", 1, 7, {"lr": float("inf")}),
])
def test_invalid_numbers(adam, what, step, number, changed):
    given = tensors()
    before = [x.clone() for x in given]
    with pytest.raises(ValueError, match=what + ".*got.*want"):
        update(adam, step, given, number, **changed)
    assert all(torch.equal(a, b) for a, b in zip(given, before))


def test_lists_of_unequal_length(adam):
    p, g, m, v = tensors()
    with pytest.raises(ValueError, match="differ in length"):
        adam.adam_update_list(7, 1, 1e-2, 0.9, 0.99, 1e-8, 0.1, True, [p], [g, g], [m], [v])


# Fails if the fast call misreads an argument, or handles calls that it must leave to torch:
# keywords, conversions, modes and subclasses.
def test_call_variants(adam):
    numbers = (7, 3, 1.0, 0.9, 0.99, 1e-8, 0.5, True)
    names = ("optimizer_id", "step", "lr", "beta1", "beta2", "eps", "weight_decay", "bias_correction")
    calls = {
        "plain": lambda x: adam.adam_update(*numbers, *x),
        "torch's": lambda x: torch.ops.anyaccel.adam_update(*numbers, *x),
        "keywords": lambda x: adam.adam_update(**dict(zip(names, numbers)), params=x[0], grads=x[1], exp_avg=x[2], exp_avg_sq=x[3]),
        "a whole lr": lambda x: adam.adam_update(7, 3, 1, *numbers[3:], *x),
        "a parameter": lambda x: adam.adam_update(*numbers, torch.nn.Parameter(x[0]), *x[1:]),
        "lists": lambda x: adam.adam_update_list(*numbers, *([y] for y in x)),
        "tuples": lambda x: adam.adam_update_list(*numbers, *((y,) for y in x)),
    }
    results = {}
    for name, call in calls.items():
        results[name] = tensors()
        call(results[name])
    assert all(torch.equal(a, b) for x in results.values() for a, b in zip(x, results["plain"]))
    assert not torch.equal(results["plain"][0], tensors()[0])
    for wrong in (numbers, (*numbers[:2], "1", *numbers[3:], *tensors()), (2**70, *numbers[1:], *tensors())):
        with pytest.raises((RuntimeError, TypeError)):
            adam.adam_update(*wrong)

    class Noted(torch.Tensor):
        seen = 0

        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            cls.seen += 1
            return super().__torch_function__(function, types, args, kwargs or {})

    adam.adam_update(*numbers, tensors()[0].as_subclass(Noted), *tensors()[1:])
    assert Noted.seen == 1
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        adam.adam_update(*numbers, *(torch.empty(5) for _ in range(4)))


# Fails if a schema does not declare a mutation, or a meta kernel does not match its op.
def test_opcheck(adam):
    given = tensors(32)
    numbers = (7, 1, 1e-2, 0.9, 0.99, 1e-8, 0.1, True)
    torch.library.opcheck(torch.ops.anyaccel.adam_update.default, (*numbers, *given))
    torch.library.opcheck(torch.ops.anyaccel.adam_rollback.default, (*numbers, *given))
    torch.library.opcheck(torch.ops.anyaccel.adam_update_list.default, (*numbers, *([x] for x in given)))


# Fails if a rollback does not undo the step.
def test_rollback(adam):
    given = tensors()
    update(adam, 1, given)
    before = [x.clone() for x in given]
    given[1].copy_(torch.randn(100))
    update(adam, 2, given)
    adam.adam_rollback(7, 2, 1e-2, 0.9, 0.99, 1e-8, 0.1, True, *given)
    for a, b in zip(given, (before[0], given[1], *before[2:])):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


# Fails if a list with an invalid tensor is partly rolled back, or the result differs from a
# rollback of its tensors one by one.
def test_rollback_of_lists(adam):
    numbers = (7, 2, 1e-2, 0.9, 0.99, 1e-8, 0.1, True)
    ours = [tensors(n, seed=n) for n in (0, 17, 50_000)]
    for four in ours:
        update(adam, 2, four)
    single = [[x.clone() for x in four] for four in ours]
    wrong = list(map(list, zip(*ours)))
    wrong[3][2] = wrong[3][2].half()
    versions = [x._version for x in ours[1]]
    with pytest.raises(ValueError, match="dtypes of exp_avg and exp_avg_sq differ"):
        adam.adam_rollback_list(*numbers, *wrong)
    assert all(torch.equal(a, b) for x, y in zip(ours, single) for a, b in zip(x, y))
    assert versions == [x._version for x in ours[1]], "autograd treats them as modified"
    with pytest.raises(ValueError, match="beta1"):
        adam.adam_rollback_list(*numbers[:3], 0.0, *numbers[4:], *map(list, zip(*ours)))
    adam.adam_rollback_list(*numbers, *map(list, zip(*ours)))
    for four in single:
        adam.adam_rollback(*numbers, *four)
    assert all(torch.equal(a, b) for x, y in zip(ours, single) for a, b in zip(x, y))


# Fails if ANYACCEL_OPS_ISA is ignored, or the instruction sets give different bits.
def test_instruction_sets():
    program = ("import sys; sys.path.insert(0, sys.argv[1]); import cpu_adam_test as t, torch, hashlib\n"
               "t.ADAM.create_adam(7, 1e-2, 0.9, 0.99, 1e-8, 0.1, True, True)\n"
               "x = t.tensors(1003, torch.bfloat16)\n"
               "for step in (1, 2, 3): t.update(t.ADAM, step, x)\n"
               "print(*(hashlib.sha256(y.view(torch.uint8).numpy()).hexdigest() for y in x))")
    answers = {}
    for isa in ("scalar", ""):
        environment = os.environ | {"ANYACCEL_OPS_ISA": isa}
        out = subprocess.run([sys.executable, "-B", "-c", program, os.path.dirname(__file__)], env=environment, check=True,
                             capture_output=True, text=True, timeout=120).stdout.split("\n")
        answers[isa] = out
    assert "Adam 7: scalar" in answers["scalar"][0]
    assert len({out[1] for out in answers.values()}) == 1, answers


def optimizer_process(groups, control, ready):
    """Run the optimizer as DeepSpeed's zenflow_optimizer_process does."""
    ADAM.create_adam(0, 1e-3, 0.9, 0.999, 1e-8, 0.0, True, False)
    handle = ADAM.zenflow_adam_create(0, list(os.sched_getaffinity(0)))
    for param, grad0, grad1, stale in groups:
        states = [torch.zeros_like(param) for _ in range(4)]
        ADAM.zenflow_adam_register_group(handle, param, grad0, grad1, *states, stale)
    ready.set()
    ADAM.zenflow_adam_run_worker(handle, control.data_ptr())
    ADAM.zenflow_adam_destroy(handle)
    ADAM.destroy_adam(0)


# Fails if a backward pass silently uses parameters that a step has changed since the forward pass.
def test_autograd_detects_mutation(adam):
    p, g, m, v = tensors()
    p.requires_grad_()
    loss = (p * p).sum()
    update(adam, 1, (p.detach(), g, m, v))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# Fails if the optimizer process computes a different step than adam_update, or loses a step.
def test_zenflow(adam):
    context = torch.multiprocessing.get_context("spawn")
    groups = []
    for n in (1000, 70_001):
        p, g, _, _ = tensors(n)
        groups.append([x.share_memory_() for x in (p, g, -g, torch.zeros_like(p))])
    copies = [(p.clone(), g0.clone(), torch.zeros_like(p), torch.zeros_like(p)) for p, g0, _, _ in groups]
    control = torch.zeros(ADAM.zenflow_adam_ctrl_size(), dtype=torch.uint8).share_memory_()
    with pytest.raises(ValueError, match="not initialized"):
        ADAM.zenflow_adam_wait(control.data_ptr(), 0.0)
    ADAM.zenflow_adam_ctrl_init(control.data_ptr(), len(groups))
    ready = context.Event()
    process = context.Process(target=optimizer_process, args=(groups, control, ready))
    process.start()
    try:
        assert ready.wait(120)
        assert not ADAM.zenflow_adam_wait(control.data_ptr(), 0.01)
        numbers = ([1e-2, 1e-2], [0.9, 0.9], [0.99, 0.99], [1e-8, 1e-8], [0.1, 0.1], [1, 1])
        with pytest.raises(ValueError, match="differs from the number of groups"):
            ADAM.zenflow_adam_submit(control.data_ptr(), 0, 1, *(x[:1] for x in numbers))
        ADAM.zenflow_adam_submit(control.data_ptr(), 0, 1, *numbers)
        # Fails if a second step replaces an unfinished one.
        with pytest.raises(ValueError, match="has not returned true for the previous step"):
            ADAM.zenflow_adam_submit(control.data_ptr(), 1, 2, *numbers)
        assert ADAM.zenflow_adam_wait(control.data_ptr(), 60.0)
    finally:
        ADAM.zenflow_adam_ctrl_exit(control.data_ptr())
        process.join(60)
    assert process.exitcode == 0
    for (p, _, _, stale), four in zip(groups, copies):
        update(adam, 1, four)
        assert torch.equal(p, four[0]) and torch.equal(stale, p)


def trainer_process(control, pids):
    """Start an optimizer process, send its process ID, and wait to be killed."""
    context = torch.multiprocessing.get_context("spawn")
    groups = [[x.share_memory_() for x in (*tensors(10)[:2], torch.zeros(10), torch.zeros(10))]]
    ADAM.zenflow_adam_ctrl_init(control.data_ptr(), len(groups))
    ready = context.Event()
    worker = context.Process(target=optimizer_process, args=(groups, control, ready))
    worker.start()
    assert ready.wait(120)
    pids.put(worker.pid)
    time.sleep(600)


# Fails if the optimizer process outlives its killed trainer and keeps using memory and CPUs.
def test_zenflow_ends_with_its_trainer():
    context = torch.multiprocessing.get_context("spawn")
    control = torch.zeros(ADAM.zenflow_adam_ctrl_size(), dtype=torch.uint8).share_memory_()
    pids = context.Queue()
    trainer = context.Process(target=trainer_process, args=(control, pids))
    trainer.start()
    worker = pids.get(timeout=240)
    os.kill(worker, 0)
    trainer.kill()
    trainer.join(60)
    state = lambda: open(f"/proc/{worker}/stat").read().rsplit(")", 1)[1].split()[0]  # noqa: E731
    end = time.monotonic() + 60
    try:
        while state() not in "ZX":  # stays a zombie if no process reaps it
            assert time.monotonic() < end, "the worker is still running"
            time.sleep(0.1)
    except FileNotFoundError:
        pass
