"""CPUAdagrad and CPULion through their builders, called as in DeepSpeed's Python code and compared
with torch.
"""

import pytest
import torch

import anyaccel

ADAGRAD = anyaccel.get_accelerator().create_op_builder("CPUAdagradBuilder").load()
LION = anyaccel.get_accelerator().create_op_builder("CPULionBuilder").load()
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@pytest.fixture(autouse=True)
def optimizers():
    ADAGRAD.create_adagrad(3, 1e-2, 1e-10, 0.1, False)
    LION.create_lion(3, 1e-2, 0.9, 0.99, 0.1, False)
    yield
    ADAGRAD.destroy_adagrad(3)
    LION.destroy_lion(3)


def tensors(n=1001, dtype=torch.float32, state=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, generator=generator).to(dtype), torch.randn(n, generator=generator).to(dtype),
            torch.zeros(n, dtype=state)]


# Fails if a step differs from torch's Adagrad with L2 decay.
def test_adagrad_matches_torch():
    p, _, s = tensors()
    q = torch.nn.Parameter(p.clone())
    theirs = torch.optim.Adagrad([q], lr=1e-2, weight_decay=0.1)
    for step in range(1, 6):
        g = torch.randn(1001)
        q.grad = g.clone()
        theirs.step()
        ADAGRAD.adagrad_update(3, step, 1e-2, 1e-10, 0.1, p, g, s)
        assert torch.equal(g, q.grad)
    torch.testing.assert_close(p, q.data, rtol=1e-5, atol=1e-6)


# Fails if the value tensor of a sparse gradient, which DeepSpeed's Python code passes, is rejected.
def test_adagrad_accepts_sparse_values():
    p, s = torch.randn(10, 4), torch.zeros(10, 4)
    g = torch.sparse_coo_tensor([[1, 7]], torch.ones(2, 4), (10, 4)).coalesce()
    some, squares = p.sparse_mask(g), s.sparse_mask(g)
    before = some.values().clone()
    ADAGRAD.adagrad_update(3, 1, 1e-2, 1e-10, 0.0, some.values(), g.values(), squares.values())
    torch.testing.assert_close(some.values(), before - 1e-2)


def lion_of_the_paper(p, g, m):
    direction = (0.9 * m + 0.1 * g).sign()
    return p * (1 - 1e-2 * 0.1) - 1e-2 * direction, 0.99 * m + 0.01 * g


# Fails if a step differs from the formula in the Lion paper.
def test_lion_matches_the_paper():
    p, _, m = tensors()
    q, n = p.double(), m.double()
    for step in range(1, 6):
        g = torch.randn(1001)
        q, n = lion_of_the_paper(q, g.double(), n)
        LION.lion_update(3, step, 1e-2, 0.9, 0.99, 0.1, p, g, m)
    torch.testing.assert_close(p.double(), q, rtol=1e-5, atol=1e-6)


# Fails if a combination of dtypes is unsupported, or updating a list differs from updating its
# tensors one by one.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("own_state", [False, True])
def test_dtypes_and_lists(dtype, own_state):
    given = [tensors(n, dtype, dtype if own_state else torch.float32, n) for n in (0, 1, 40_000, 333)]
    for update, update_list, numbers in (
            (ADAGRAD.adagrad_update, ADAGRAD.adagrad_update_list, (3, 1, 1e-2, 1e-10, 0.1)),
            (LION.lion_update, LION.lion_update_list, (3, 1, 1e-2, 0.9, 0.99, 0.1))):
        single = [[x.clone() for x in three] for three in given]
        listed = [[x.clone() for x in three] for three in given]
        for three in single:
            update(*numbers, *three)
        update_list(*numbers, *map(list, zip(*listed)))
        assert all(torch.equal(a, b) for x, y in zip(single, listed) for a, b in zip(x, y))
        assert not torch.equal(single[3][0], given[3][0])


# Fails if invalid tensors are accepted, or a tensor changes before the error.
@pytest.mark.parametrize("what, change", [
    ("shape of grads", lambda x: x.__setitem__(1, x[1][:-1])),
    ("dtype of exp_avg", lambda x: x.__setitem__(2, x[2].half())),
    ("dtype of params", lambda x: x.__setitem__(0, x[0].double())),
    ("memory layout", lambda x: x.__setitem__(1, torch.ones(2002)[::2])),
])
def test_invalid_tensors(what, change):
    given = tensors()
    change(given)
    before = [x.clone() for x in given]
    with pytest.raises(ValueError, match=what):
        ADAGRAD.adagrad_update(3, 1, 1e-2, 1e-10, 0.1, *given)
    with pytest.raises(ValueError, match=what):
        LION.lion_update(3, 1, 1e-2, 0.9, 0.99, 0.1, *given)
    assert all(torch.equal(a, b) for a, b in zip(given, before))


def test_invalid_numbers():
    given = tensors()
    for call in (lambda: ADAGRAD.adagrad_update(4, 1, 1e-2, 1e-10, 0.1, *given),
                 lambda: ADAGRAD.adagrad_update(3, -1, 1e-2, 1e-10, 0.1, *given),
                 lambda: ADAGRAD.adagrad_update(3, 1, 1e-2, -1.0, 0.1, *given),
                 lambda: LION.lion_update(4, 1, 1e-2, 0.9, 0.99, 0.1, *given),
                 lambda: LION.lion_update(3, 1, 1e-2, 1.0, 0.99, 0.1, *given),
                 lambda: LION.lion_update(3, 1, float("nan"), 0.9, 0.99, 0.1, *given)):
        with pytest.raises(ValueError, match="got.*want"):
            call()
    assert all(torch.equal(a, b) for a, b in zip(given, tensors()))


# Fails if autograd does not notice that a step changed parameters and state in place.
def test_autograd_detects_mutation():
    p, g, s = tensors()
    before = p._version, s._version
    torch.ops.anyaccel.adagrad_update(3, 1, 1e-2, 1e-10, 0.1, p, g, s)
    torch.ops.anyaccel.lion_update(3, 1, 1e-2, 0.9, 0.99, 0.1, p, g, s)
    assert (p._version, s._version) == (before[0] + 2, before[1] + 2)


# Fails if a schema does not declare a mutation, or a meta kernel does not match its op.
def test_opcheck():
    given = tensors(32)
    torch.library.opcheck(torch.ops.anyaccel.adagrad_update.default, (3, 1, 1e-2, 1e-10, 0.1, *given))
    torch.library.opcheck(torch.ops.anyaccel.lion_update.default, (3, 1, 1e-2, 0.9, 0.99, 0.1, *given))
    lists = [[x] for x in given]
    torch.library.opcheck(torch.ops.anyaccel.adagrad_update_list.default, (3, 1, 1e-2, 1e-10, 0.1, *lists))
    torch.library.opcheck(torch.ops.anyaccel.lion_update_list.default, (3, 1, 1e-2, 0.9, 0.99, 0.1, *lists))


# Fails if a rejected list still counts as modified. A backward pass would then reject unchanged
# tensors.
def test_rejected_lists_do_not_count_as_modified():
    params, grads, states = ([torch.zeros(n) for n in sizes] for sizes in ((4, 4), (4, 4), (4, 5)))
    for call in (lambda: ADAGRAD.adagrad_update_list(3, 1, 1e-2, 1e-10, 0.1, params, grads, states),
                 lambda: LION.lion_update_list(3, 1, 1e-2, 0.9, 0.99, 0.1, params, grads, states)):
        with pytest.raises(ValueError, match="shape"):
            call()
    assert [x._version for x in (*params, *states)] == [0] * 4
