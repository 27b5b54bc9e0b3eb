"""Sparse COO tensors on the simulated device: their ops run as on the CPU."""

import os

import pytest

os.environ["DS_ACCELERATOR"] = "sim"

import torch  # noqa: E402

import anyaccel  # noqa: E402

if "sim" not in anyaccel.registered_backends():
    pytest.skip("this build has no simulator", allow_module_level=True)
anyaccel.get_accelerator()

INDICES, VALUES, SIZE = [[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)


def sparse(device):
    return torch.sparse_coo_tensor(torch.tensor(INDICES, device=device), torch.tensor(VALUES, device=device), SIZE,
                                   check_invariants=False)


def dense(tensor):
    return tensor.to_dense() if tensor.layout == torch.sparse_coo else tensor


# Functions of a sparse 2x3 tensor and a dense one. Some of these ops have a generic kernel in
# addition to those for sparse tensors.
OPS = {
    "to_dense": lambda s, x: s.to_dense(),
    "dense plus sparse": lambda s, x: x + s,
    "sparse plus sparse": lambda s, x: s + s,
    "scale": lambda s, x: s * 2 / 3,
    "sparse times dense": lambda s, x: s * x,
    "mm": lambda s, x: torch.sparse.mm(s, x.t()),
    "coalesce": lambda s, x: s.coalesce().values(),
    "clone and add_": lambda s, x: s.clone().add_(s),
    "zeros_like and copy_": lambda s, x: torch.zeros_like(s).copy_(s),
    "transpose": lambda s, x: s.t(),
    "sum": lambda s, x: torch.sparse.sum(s, 0),
    "dtype": lambda s, x: s.half().float(),
    "to_sparse": lambda s, x: x.to_sparse(),
    "sparse_mask": lambda s, x: x.sparse_mask(s.coalesce()),
    "softmax": lambda s, x: torch.sparse.softmax(s, 1),
    "cat": lambda s, x: torch.cat([s, s]),
}


@pytest.mark.parametrize("name", OPS)
def test_ops(name):
    """Fails if an op of a sparse tensor differs from the CPU's, or its result is not on the device."""
    expected, found = (OPS[name](sparse(device), torch.arange(6.0, device=device).view(SIZE)) for device in ("cpu", "sim"))
    assert found.device.type == "sim" and found.layout == expected.layout
    assert torch.equal(dense(found).cpu(), dense(expected))


def test_writes_and_copies():
    """Fails if an in-place op is lost, or if a copy between host and device changes a sparse tensor."""
    x = torch.ones(SIZE, device="sim")
    x.add_(sparse("sim"), alpha=2)
    assert x.tolist() == [[1, 1, 7], [9, 1, 11]]
    s = sparse("sim")
    s._values().mul_(2)
    assert s.to_dense().tolist() == [[0, 0, 6], [8, 0, 10]]
    s.add_(torch.sparse_coo_tensor(torch.tensor([[0], [0]], device="sim"), torch.ones(1, device="sim"), SIZE))
    assert s._nnz() == 4 and s.cpu().to_dense().tolist() == [[1, 0, 6], [8, 0, 10]]
    assert torch.equal(sparse("cpu").to("sim").to_dense().cpu(), sparse("cpu").to_dense())
    assert "layout=torch.sparse_coo" in repr(s)


def test_gradients():
    """Fails if values of a sparse tensor get no gradient, or a sparse gradient cannot train an embedding."""
    values = torch.ones(3, device="sim", requires_grad=True)
    weight = torch.ones(SIZE, device="sim", requires_grad=True)
    (weight + torch.sparse_coo_tensor(torch.tensor(INDICES, device="sim"), values, SIZE)).mul(2).sum().backward()
    assert values.grad.tolist() == [2, 2, 2] and weight.grad.sum().item() == 12
    models = [torch.nn.Embedding(10, 4, sparse=True).to(device) for device in ("cpu", "sim")]
    models[1].load_state_dict(models[0].state_dict())
    for model in models:
        optimizer = torch.optim.SparseAdam(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.tensor([1, 2, 2], device=model.weight.device)).square().sum().backward()
            assert model.weight.grad.is_sparse
            optimizer.step()
    assert torch.equal(models[0].weight, models[1].weight.cpu())


@pytest.mark.parametrize("sparse_gradient", [True, False])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_embedding_bags(mode, sparse_gradient):
    """Fails if an embedding bag cannot be trained, or if its gradient has another layout or other values than the CPU's."""
    models = [torch.nn.EmbeddingBag(10, 4, mode=mode, sparse=sparse_gradient).to(device) for device in ("cpu", "sim")]
    models[1].load_state_dict(models[0].state_dict())
    for model in models:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(2):
            optimizer.zero_grad()
            indices, offsets = (torch.tensor(values, device=model.weight.device) for values in ([1, 2, 2, 7], [0, 3]))
            model(indices, offsets).square().sum().backward()
            assert model.weight.grad.is_sparse == sparse_gradient
            optimizer.step()
    assert torch.equal(models[0].weight, models[1].weight.cpu())


def test_other_layouts_are_rejected():
    """Fails if a compressed layout is accepted or the message does not name the op and the layout."""
    for tensor in (sparse("sim"), torch.ones(SIZE, device="sim")):
        with pytest.raises(NotImplementedError, match="_to_sparse_csr.*SparseCsr"):
            tensor.to_sparse_csr()
