"""DeepSpeed's random layerwise token dropping on AnyAccel's op, compared with torch's indexing. On
sim, tensors are on the device.
"""

import importlib.util

import pytest

if importlib.util.find_spec("deepspeed") is None:
    pytest.skip("deepspeed is not installed", allow_module_level=True)

import anyaccel.deepspeed  # noqa: E402,F401
import torch  # noqa: E402

from deepspeed.accelerator import get_accelerator  # noqa: E402
from deepspeed.ops.random_ltd import dropping_utils  # noqa: E402
from deepspeed.runtime.data_pipeline import constants as names  # noqa: E402
from deepspeed.runtime.data_pipeline.data_routing.basic_layer import RandomLayerTokenDrop  # noqa: E402
from deepspeed.runtime.data_pipeline.data_routing.scheduler import RandomLTDScheduler  # noqa: E402

DEVICE = get_accelerator().current_device_name()
BATCH, TOKENS, KEPT, CHANNELS, LAYERS = 3, 12, 8, 6, 2


class Mixed(torch.nn.Module):
    """A layer in which tokens attend to each other through a mask that is added to uniform scores.
    """

    def __init__(self, batch_first, returns_tuple):
        super().__init__()
        self.linear = torch.nn.Linear(CHANNELS, CHANNELS)
        self.batch_first, self.returns_tuple = batch_first, returns_tuple

    def forward(self, x, attention_mask=None):
        rows = x if self.batch_first else x.transpose(0, 1)
        out = attention_mask[:, 0].softmax(-1) @ self.linear(rows).tanh()
        out = out if self.batch_first else out.transpose(0, 1)
        return (out, None) if self.returns_tuple else out


def scheduler():
    config = {names.RANDOM_LTD_TOTAL_LAYER_NUM: LAYERS, names.RANDOM_LTD_LAYER_NUM: LAYERS, names.RANDOM_LTD_GLOBAL_BATCH_SIZE: BATCH,
              names.RANDOM_LTD_LAYER_TOKEN_LR_SCHEDULE: {names.RANDOM_LTD_LAYER_TOKEN_LR_ENABLED: False},
              names.RANDOM_LTD_SCHEDULER: {names.RANDOM_LTD_MIN_VALUE: KEPT, names.RANDOM_LTD_MAX_VALUE: TOKENS,
                                           names.RANDOM_LTD_SCHEDULER_TYPE: "fixed_linear",
                                           names.RANDOM_LTD_SCHEDULE_CONFIG: {names.RANDOM_LTD_REQUIRE_STEP: 10,
                                                                              names.RANDOM_LTD_INCREASE_STEP: 1}}}
    return RandomLTDScheduler(config)


def plain(layer, x, ids, mask, batch_first, encoder):
    """Run a layer on the kept tokens only. The other tokens bypass it."""
    rows = x if batch_first else x.transpose(0, 1)
    index = ids.long()[:, :, None].expand(-1, -1, CHANNELS)
    if encoder:
        kept = torch.stack([mask[i][:, ids[i].long()][:, :, ids[i].long()] for i in range(BATCH)])
    else:
        kept = mask[:, :, :KEPT, :KEPT]
    part = rows.gather(1, index)
    out = layer(part if batch_first else part.transpose(0, 1), attention_mask=kept)
    out = out[0] if isinstance(out, tuple) else out
    out = rows.scatter(1, index, out if batch_first else out.transpose(0, 1))
    return out if batch_first else out.transpose(0, 1)


@pytest.mark.parametrize("order", ["batch_seq_dim", "seq_batch_dim"])
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
@pytest.mark.parametrize("returns_tuple", [False, True])
def test_token_dropping_layers(order, kind, returns_tuple):
    # Fails if the order of a function's arguments differs from that in DeepSpeed's classes, or a
    # gradient belongs to the wrong token.
    torch.manual_seed(3)
    batch_first, state = order == "batch_seq_dim", scheduler()
    layers = [Mixed(batch_first, returns_tuple).to(DEVICE) for _ in range(LAYERS)]
    dropping = [RandomLayerTokenDrop(layer).train() for layer in layers]
    for number, layer in enumerate(dropping):
        layer.init_config({names.RANDOM_LTD_MODEL_MASK_NAME: "attention_mask", names.RANDOM_LTD_MICRO_BATCH_SIZE: BATCH,
                           names.RANDOM_LTD_HIDDEN_STATE_ORDER: order, names.RANDOM_LTD_MODEL_TYPE: kind}, state, number)
    x = torch.randn(*((BATCH, TOKENS) if batch_first else (TOKENS, BATCH)), CHANNELS).to(DEVICE).requires_grad_()
    mask, grad = torch.randn(BATCH, 1, TOKENS, TOKENS).to(DEVICE), torch.randn(x.shape).to(DEVICE)
    out = x * 1
    for layer in dropping:
        out = layer(out, attention_mask=mask)
        out = out[0] if returns_tuple else out
    ids = state.get_state()[names.RANDOM_LTD_SAMPLE_INDEX]
    assert ids.shape == (LAYERS, BATCH, KEPT) and bool((ids[..., 1:] > ids[..., :-1]).all())
    want = x * 1
    for number, layer in enumerate(layers):
        want = plain(layer, want, ids[number], mask, batch_first, kind == "encoder")
    torch.testing.assert_close(out, want)
    leaves = [x, *(parameter for layer in layers for parameter in layer.parameters())]
    for got, right in zip(torch.autograd.grad(out, leaves, grad.clone()), torch.autograd.grad(want, leaves, grad)):
        torch.testing.assert_close(got, right)


def test_masks_match_deepspeed():
    # Fails if the op gives a different mask than DeepSpeed's Python code, which uses indexing
    # instead of the op.
    mask = torch.randn(BATCH, 1, TOKENS, TOKENS).to(DEVICE)
    ids, masks = dropping_utils.bert_sample_tokens(KEPT, TOKENS, BATCH, LAYERS, DEVICE, mask)
    assert torch.equal(dropping_utils.random_ltd_module.mask_gather_bert(mask, ids), torch.stack(masks))
    assert dropping_utils.random_ltd_module.__name__ == "anyaccel.ops.random_ltd"
    ids, short = dropping_utils.gpt_sample_tokens(KEPT, TOKENS, BATCH, LAYERS, DEVICE, mask)
    assert torch.equal(dropping_utils.random_ltd_module.mask_gather_gpt(mask, KEPT), short)
