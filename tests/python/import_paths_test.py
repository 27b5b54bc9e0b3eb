"""DeepSpeed's import paths with `anyaccel` instead of `deepspeed`: the tables in
docs/reference/deepspeed-paths.md, and the behavior of the names.
"""

import importlib
import importlib.util
import pathlib
import re

import pytest
import torch

import anyaccel
from anyaccel import get_accelerator

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECTION = (ROOT / "docs/reference/deepspeed-paths.md").read_text()
ROWS = [(path, re.findall(r"`([\w.]+)`", names)) for path, names in re.findall(r"^\| `([\w.]+)` \| (.*) \|$", SECTION, re.M) if path.startswith("deepspeed")]
MISSING = re.findall(r"`([\w.]+)`", SECTION.split("| modules of `deepspeed` | part |")[1].split("\n\n")[0])


def found(path, name):
    """Return the result of `from path import name` with anyaccel instead of deepspeed. A name with
    a dot is in a submodule.
    """
    *below, last = name.split(".")
    module = importlib.import_module(".".join(["anyaccel", *path.split(".")[1:], *below]))
    return getattr(module, last)


# Fails if a path or name in the table cannot be imported.
@pytest.mark.parametrize("path, names", ROWS, ids=[f"{i}-{path}" for i, (path, _) in enumerate(ROWS)])
def test_counterparts(path, names):
    for name in names:
        value = found(path, name)
        if name.endswith("Builder"):
            assert issubclass(value, anyaccel.OpBuilder) and value.__name__ == name.split(".")[-1]
    importlib.import_module(path.replace("deepspeed", "anyaccel", 1))


# Fails if a name that contains `deepspeed` is missing after a program replaces that string
# everywhere.
def test_names_containing_deepspeed():
    from anyaccel.ops.anyaccel4science import DS4Sci_EvoformerAttention
    assert DS4Sci_EvoformerAttention is anyaccel.ops.deepspeed4science.DS4Sci_EvoformerAttention


# Fails if rows of the tables are not parsed, and therefore not tested.
def test_tables_are_parsed():
    assert len(ROWS) == 28 and sum(len(names) for _, names in ROWS) > 150 and len(MISSING) == 47


# Fails if the error for a path without a counterpart does not say what to do, with `import` or
# `from ... import`.
@pytest.mark.parametrize("path", MISSING)
def test_errors_for_missing_paths_give_advice(path):
    *above, last = path.split(".")
    ways = [f"import anyaccel.{path}", f"from {'.'.join(['anyaccel', *above])} import {last}"]
    # The package has a function with this name.
    for how in ways[:1] if path == "ops.fp_quantizer.quantize" else ways:
        with pytest.raises(ImportError, match=rf"no counterpart of deepspeed\.{path}; import it from deepspeed"):
            exec(how, {})


# Fails if the advice is missing for a missing attribute of the package, or is given for a name that
# DeepSpeed lacks as well.
def test_errors_for_missing_names_give_advice():
    for name in ("initialize", "zero", "init_inference", "DeepSpeedConfig"):
        with pytest.raises(AttributeError, match=f"no counterpart of deepspeed.{name}; import it from deepspeed"):
            getattr(anyaccel, name)
        assert not hasattr(anyaccel, name)
    with pytest.raises(AttributeError, match="module 'anyaccel' has no attribute 'no_such_name'"):
        anyaccel.no_such_name
    with pytest.raises(ModuleNotFoundError, match="No module named 'anyaccel.no_such_module'"):
        importlib.import_module("anyaccel.no_such_module")
    with pytest.raises(AttributeError, match="has no op 'no_such_op'"):
        anyaccel.ops.no_such_op


# Fails if DeepSpeed has a module for ops, accelerators or communication that the tables do not
# mention.
def test_tables_list_all_modules_of_deepspeed():
    spec = importlib.util.find_spec("deepspeed")
    if spec is None:
        pytest.skip("DeepSpeed is not installed")
    package = pathlib.Path(spec.submodule_search_locations[0])
    listed = {path for path, _ in ROWS} | {".".join([path, *name.split(".")[:-1]]) for path, names in ROWS for name in names}
    for part in ("accelerator", "comm", "ops"):
        for file in (package / part).rglob("*.py"):
            module = "deepspeed." + ".".join(file.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
            below = module.removeprefix("deepspeed.")
            missing = any(below == one or below.startswith(one + ".") for one in MISSING)
            assert module in {*listed, "deepspeed.ops"} or missing, module
    for file in package.glob("*/__init__.py"):
        assert file.parent.name in MISSING or file.parent.name in ("accelerator", "comm", "ops"), file.parent.name


# Fails if a builder does not belong to the current accelerator, or an op lacks its builder.
def test_builders_belong_to_the_accelerator():
    from anyaccel.ops import op_builder
    from anyaccel.ops.op_builder import CPUAdamBuilder, all_ops, async_io
    assert CPUAdamBuilder is get_accelerator().get_op_builder("CPUAdamBuilder") is op_builder.CPUAdamBuilder
    assert async_io.AsyncIOBuilder().name == "async_io" == async_io.AsyncIOBuilder().name()
    assert CPUAdamBuilder().load() is anyaccel.ops.cpu_adam
    assert all_ops.ALL_OPS["cpu_adam"].NAME == "cpu_adam" and len(all_ops.ALL_OPS) >= 25
    assert "AsyncIOBuilder" in dir(op_builder) and not hasattr(op_builder, "NoSuchThing")
    assert importlib.util.find_spec("anyaccel.ops.op_builder.async_io") is not None


def parameters(dtype=torch.float32):
    torch.manual_seed(3)
    return [torch.nn.Parameter(torch.randn(size).to(dtype)) for size in ((5, 7), (9,))]


def run(optimizer, weights, steps=6):
    """Run steps with a new gradient each. The second weight has none in the first step."""
    torch.manual_seed(4)
    for step in range(steps):
        for place, weight in enumerate(weights):
            gradient = torch.randn_like(weight)
            weight.grad = None if place and not step else gradient
        optimizer.step()
    return [weight.detach().float() for weight in weights]


OPTIMIZERS = {
    "DeepSpeedCPUAdam": (lambda w: found("deepspeed.ops.adam", "DeepSpeedCPUAdam")(w, lr=0.01, weight_decay=0.1),
                         lambda w: torch.optim.AdamW(w, lr=0.01, weight_decay=0.1)),
    "DeepSpeedCPUAdam, L2": (lambda w: found("deepspeed.ops.adam", "DeepSpeedCPUAdam")(w, lr=0.01, weight_decay=0.1, adamw_mode=False),
                             lambda w: torch.optim.Adam(w, lr=0.01, weight_decay=0.1)),
    "FusedAdam": (lambda w: found("deepspeed.ops.adam", "FusedAdam")(w, lr=0.01, weight_decay=0.1), lambda w: torch.optim.AdamW(w, lr=0.01, weight_decay=0.1)),
    "FusedAdam, L2": (lambda w: found("deepspeed.ops.adam", "FusedAdam")(w, lr=0.01, adam_w_mode=False, weight_decay=0.1),
                      lambda w: torch.optim.Adam(w, lr=0.01, weight_decay=0.1)),
    "DeepSpeedCPUAdagrad": (lambda w: found("deepspeed.ops.adagrad", "DeepSpeedCPUAdagrad")(w, lr=0.01, weight_decay=0.1),
                            lambda w: torch.optim.Adagrad(w, lr=0.01, weight_decay=0.1)),
}


# Fails if an optimizer's results differ from torch's, including for parameters that skip a step.
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_match_torch(name):
    ours, torchs = OPTIMIZERS[name]
    mine, theirs = parameters(), parameters()
    for got, want in zip(run(ours(mine), mine), run(torchs(theirs), theirs)):
        torch.testing.assert_close(got, want, rtol=2e-5, atol=2e-6)


def lion(weights, lr, betas, decay, steps=6):
    """Reference implementation of Lion."""
    moments = [torch.zeros_like(weight) for weight in weights]
    torch.manual_seed(4)
    for step in range(steps):
        for place, (weight, moment) in enumerate(zip(weights, moments)):
            gradient = torch.randn_like(weight)
            if place and not step:
                continue
            with torch.no_grad():
                weight.mul_(1 - lr * decay).sub_(lr * (betas[0] * moment + (1 - betas[0]) * gradient).sign())
                moment.mul_(betas[1]).add_((1 - betas[1]) * gradient)
    return [weight.detach() for weight in weights]


# Fails if the results differ from Lion's formula.
@pytest.mark.parametrize("name", ["DeepSpeedCPULion", "FusedLion"])
def test_lion(name):
    mine, theirs = parameters(), parameters()
    got = run(found("deepspeed.ops.lion", name)(mine, lr=0.01, betas=(0.9, 0.99), weight_decay=0.1), mine)
    for one, want in zip(got, lion(theirs, 0.01, (0.9, 0.99), 0.1)):
        torch.testing.assert_close(one, want, rtol=1e-5, atol=1e-6)


# Fails if LAMB ignores the trust ratio, its limits, or the scaling and clipping of gradients.
def test_lamb():
    from anyaccel.ops.lamb import FusedLamb
    weight = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = FusedLamb([weight], lr=0.1, weight_decay=0.0, bias_correction=False, eps=0.0)
    weight.grad = torch.tensor([1.0, -1.0])
    optimizer.step()
    update = 0.1 / 0.001**0.5  # Adam's update without bias correction, times the gradient's sign
    ratio = 5 / (update * 2**0.5)
    torch.testing.assert_close(weight.data, torch.tensor([3 - 0.1 * ratio * update, 4 + 0.1 * ratio * update]), rtol=1e-5, atol=1e-5)
    assert optimizer.get_lamb_coeffs() == pytest.approx([ratio], rel=1e-5)
    copies = []
    for arguments in ({}, {"scale": 4.0, "grads": [torch.tensor([4.0, 8.0])]}, {"grad_norms": [20.0]}):
        one = torch.nn.Parameter(torch.tensor([3.0, 4.0]))
        one.grad = torch.tensor([1.0, 2.0])
        lamb = FusedLamb([one], lr=0.1, max_grad_norm=2.0 if "grad_norms" in arguments else 0.0, eps=1e-3, eps_inside_sqrt=True)
        copy = torch.empty(2)
        lamb.step(output_params=[copy], **arguments)
        assert torch.equal(copy, one.data)
        copies.append(lamb.state[one]["exp_avg"] * 10)
    torch.testing.assert_close(copies[1], copies[0])
    torch.testing.assert_close(copies[2], copies[0] / 10, rtol=1e-4, atol=1e-6)


# Fails if loading a state dict does not resume the run, or a state has the wrong dtype. Sparse
# gradients must not change other rows.
def test_optimizer_states():
    from anyaccel.ops.adagrad import DeepSpeedCPUAdagrad
    from anyaccel.ops.adam import DeepSpeedCPUAdam
    whole, parts = parameters(torch.bfloat16), parameters(torch.bfloat16)
    run(DeepSpeedCPUAdam(whole), whole, 3)
    first = DeepSpeedCPUAdam(parts)
    run(first, parts, 3)
    again = DeepSpeedCPUAdam(parts)
    again.load_state_dict(first.state_dict())
    for weights, optimizer in ((whole, None), (parts, again)):
        torch.manual_seed(9)
        for weight in weights:
            weight.grad = torch.randn_like(weight)
    assert again.state[parts[0]]["step"] == 3 and again.state[parts[0]]["exp_avg"].dtype is torch.float32
    again.step()
    assert again.state[parts[0]]["step"] == 4
    own = DeepSpeedCPUAdam(parts, fp32_optimizer_states=False)
    own.step()
    assert own.state[parts[0]]["exp_avg"].dtype is torch.bfloat16
    table = torch.nn.Parameter(torch.ones(6, 3))
    sparse = DeepSpeedCPUAdagrad([table], lr=0.5)
    table.grad = torch.sparse_coo_tensor([[4, 1, 4]], torch.ones(3, 3), (6, 3))
    sparse.step()
    assert table.data[[0, 2, 3, 5]].eq(1).all() and torch.allclose(table.data[[1, 4]], torch.full((2, 3), 0.5))


# Fails if a subgroup's step cannot be undone, or undoing a step that never happened is not an
# error.
def test_subgroup_rollback():
    from anyaccel.ops.adam import DeepSpeedCPUAdam
    weight = torch.nn.Parameter(torch.linspace(-1, 1, 16))
    before = weight.data.clone()
    optimizer = DeepSpeedCPUAdam([weight], lr=0.1)
    weight.grad = torch.ones(16)
    optimizer.step_subgroup(0)
    assert not torch.allclose(weight.data, before)
    optimizer.rollback_subgroup(0)
    torch.testing.assert_close(weight.data, before, rtol=1e-4, atol=1e-5)
    for number in (0, 7):
        with pytest.raises(anyaccel.Error) as error:
            optimizer.rollback_subgroup(number)
        assert error.value.code == "invalid_state"


# Fails if an unsupported option or tensor does not raise an error.
def test_unsupported_arguments_raise():
    from anyaccel.ops.adam import DeepSpeedCPUAdam, FusedAdam
    from anyaccel.ops.lamb import FusedLamb
    for cls in (DeepSpeedCPUAdam, FusedAdam, FusedLamb):
        with pytest.raises(anyaccel.Error) as error:
            cls(parameters(), amsgrad=True)
        assert error.value.code == "unsupported"
    weight = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    weight.grad = torch.ones(3, dtype=torch.float64)
    with pytest.raises(anyaccel.Error, match="float64"):
        FusedAdam([weight]).step()
    on_meta = torch.nn.Parameter(torch.ones(3, device="meta"))
    on_meta.grad = torch.ones(3, device="meta")
    with pytest.raises(anyaccel.Error, match="must be on the CPU"):
        DeepSpeedCPUAdam([on_meta]).step()


class Config:
    group_size = 64


# Fails if dequantizing codes, or slices of them, does not return the quantized values within the
# format's error.
def test_fp_quantize():
    from anyaccel.ops.fp_quantizer import FP_Quantize, matmul_fp8
    x = torch.randn(4, 2, 64, dtype=torch.bfloat16)
    for bits, near in ((8, 0.07), (12, 0.01), (6, 0.15), (4, 0.35)):
        quantizer = FP_Quantize(Config)
        rows = quantizer.quantize(x, q_bits=bits)
        back = quantizer.dequantize(rows, q_bits=bits)
        assert back.dtype is torch.bfloat16 and back.shape == x.shape and ((back - x).norm() / x.norm()) < near
        part = quantizer.selective_dequantize(rows, torch.tensor([2, 0], dtype=torch.int32), q_bits=bits)
        assert torch.equal(part, back[[2, 0]])
    codes, scale = quantizer.quantize(x, return_meta_tensor=True)
    assert codes.shape == x.shape and codes.dtype is torch.uint8 and quantizer.get_scales().shape == (8, 1)
    apart = quantizer.dequantize(codes, scale=scale)
    assert ((apart - x).norm() / x.norm()) < 0.07
    assert torch.equal(quantizer.selective_dequantize(codes, torch.tensor([3], dtype=torch.int32), scale=scale), apart[3:])
    weight = torch.randn(64, 32, dtype=torch.bfloat16)
    codes, scale = quantizer.quantize(weight, return_meta_tensor=True)
    product = matmul_fp8(x, codes, scale, 64, quantizer)
    assert ((product - x @ weight).norm() / (x @ weight).norm()) < 0.1
    for wrong in (lambda: quantizer.quantize(x.float()), lambda: FP_Quantize(Config).dequantize(rows), lambda: quantizer.dequantize(codes[:1], scale=scale)):
        with pytest.raises(ValueError):
            wrong()


# Fails if sampled tokens repeat or are out of order, or a gradient does not reach its tokens.
def test_random_ltd():
    from anyaccel.ops.random_ltd import GatherTokens, ScatterTokens, bert_sample_tokens, gpt_sample_tokens
    mask = torch.arange(2 * 16 * 16.0).reshape(2, 1, 16, 16)
    indices, cut = gpt_sample_tokens(5, 16, 2, layers=3, attn_mask=mask)
    assert indices.shape == (3, 2, 5) and indices.dtype is torch.int32 and (indices.diff() > 0).all() and torch.equal(cut, mask[:, :, :5, :5])
    indices, masks = bert_sample_tokens(5, 16, 2, layers=3, attn_mask=mask)
    kept = indices[1, 1].long()
    assert len(masks) == 3 and torch.equal(masks[1][1, 0], mask[1, 0][kept][:, kept])
    x = torch.randn(2, 16, 4, requires_grad=True)
    everything, some = GatherTokens.apply(x, indices[0], True)
    ScatterTokens.apply(everything, some * 3, indices[0], True).sum().backward()
    want = torch.ones(2, 16, 4).scatter(1, indices[0].long()[:, :, None].expand(-1, -1, 4), 3.0)
    assert torch.equal(x.grad, want)


# Fails if a function of deepspeed.comm has different argument names here, or does not use the
# accelerator's backend.
def test_comm_of_one_rank(tmp_path):
    import anyaccel.comm as dist
    dist.init_distributed(init_method=f"file://{tmp_path}/store", rank=0, world_size=1, verbose=False)
    dist.init_distributed()  # the second call is a no-op
    try:
        assert dist.is_initialized() and dist.get_rank() == 0 and dist.get_world_size() == 1 and dist.get_local_rank() == 0
        assert torch.distributed.get_backend() == get_accelerator().communication_backend_name()
        x = torch.arange(4.0)
        dist.all_reduce(tensor=x, op=dist.ReduceOp.SUM, group=None, async_op=False, prof=True, log_name="mine")
        out = torch.empty(4)
        dist.all_to_all_single(output=out, tensor=x, debug="here")
        dist.reduce_scatter_fn(output_tensor=out, tensor=x)
        dist.all_gather_into_tensor(output_tensor=out, tensor=x)
        dist.allgather_fn(output_tensor=out, input_tensor=x)
        dist.inference_all_reduce(x)
        dist.all_reduce_coalesced([x, out])
        assert dist.all_reduce_coalesced(tensors=[x, out], async_op=True).wait()
        dist.all_gather_coalesced([out], [x])
        objects = [None]
        dist.all_gather_object(objects, {"a": 1})
        group = dist.new_group([0])
        dist.barrier(group=group)
        assert x.tolist() == out.tolist() == [0, 1, 2, 3] and objects == [{"a": 1}]
        assert dist.get_all_ranks_from_group(group) == [0] == dist.get_all_ranks_from_group()
        with pytest.raises(AttributeError):
            dist.no_such_function
    finally:
        dist.destroy_process_group()
    with pytest.raises(anyaccel.Error, match="not initialized"):
        dist.init_distributed(dist_init_required=False)
