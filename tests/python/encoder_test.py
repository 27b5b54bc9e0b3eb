"""The ops that run texts through an encoder, compared with plain torch in float64. DS_ACCELERATOR
selects the accelerator.
"""

import pytest
import torch

import anyaccel

accelerator = anyaccel.get_accelerator()
DEVICE = accelerator.current_device_name()
torch.set_num_threads(2)
accelerator.create_op_builder("DecoderInferenceBuilder").load()
pack, encode = torch.ops.anyaccel.inference_pack, torch.ops.anyaccel.inference_encode

ACTIVATIONS = [torch.nn.functional.silu, torch.nn.functional.gelu, lambda x: torch.nn.functional.gelu(x, approximate="tanh"), torch.relu,
               lambda x: torch.relu(x).square()]
EPS = 1e-6


def packed(weight):
    out = torch.full((-(-weight.shape[0] // 64), weight.shape[1], 64), 7.0, device=DEVICE)
    pack(weight.to(DEVICE), out)
    return out


class Encoder:
    """An encoder with random weights from a seed: the op's arguments and the reference."""

    def __init__(self, hidden=48, heads=4, inner=100, layers=2, activation=1):
        self.heads, self.activation = heads, activation
        self.random = torch.Generator().manual_seed(3)
        self.layers, self.flat = [], []
        for _ in range(layers):
            layer = []
            for shape in ((3 * hidden, hidden), (hidden, hidden), None, (inner, hidden), (hidden, inner), None):
                if shape:
                    pair = [self.draw(*shape) * 3 / shape[1] ** 0.5, self.draw(shape[0])]
                else:
                    pair = [1 + self.draw(hidden), self.draw(hidden)]
                layer += pair
                self.flat += [packed(pair[0]) if shape else pair[0].to(DEVICE), pair[1].to(DEVICE)]
            self.layers.append([each.double() for each in layer])

    def draw(self, *shape):
        return torch.randn(*shape, generator=self.random) * 0.3

    def run(self, x, lengths):
        out = x.to(DEVICE, copy=True)
        encode(out, self.flat, lengths, self.heads, self.activation, EPS)
        return out.cpu()

    def reference(self, x):
        """Return the reference result for one text, in float64."""
        x = x.double()
        linear, norm = torch.nn.functional.linear, torch.nn.functional.layer_norm
        for qkv, qkv_bias, output, output_bias, weight, bias, inner, inner_bias, down, down_bias, last, last_bias in self.layers:
            q, k, v = (each.view(len(x), self.heads, -1).transpose(0, 1) for each in linear(x, qkv, qkv_bias).chunk(3, -1))
            mixed = ((q @ k.transpose(1, 2) / q.shape[-1] ** 0.5).softmax(-1) @ v).transpose(0, 1).reshape(x.shape)
            x = norm(x + linear(mixed, output, output_bias), x.shape[-1:], weight, bias, EPS)
            x = norm(x + linear(ACTIVATIONS[self.activation](linear(x, inner, inner_bias)), down, down_bias), x.shape[-1:], last, last_bias, EPS)
        return x


SHAPES = [dict(), dict(hidden=64, heads=1, inner=64), dict(hidden=35, heads=5, inner=33, activation=2), dict(hidden=192, heads=2, inner=130, activation=0),
          dict(hidden=7, heads=7, inner=1, activation=3, layers=3), dict(inner=33, activation=4), dict(hidden=384, heads=12, inner=1536)]


@pytest.mark.parametrize("sizes", SHAPES, ids=str)
@pytest.mark.parametrize("lengths", [[1], [22], [5, 64, 1], [49, 48, 130, 7]], ids=str)
def test_against_torch(sizes, lengths):
    # Fails if a text attends to another text's rows, or the last rows of a panel or of a block of
    # queries are skipped.
    model = Encoder(**sizes)
    x = model.draw(sum(lengths), model.layers[0][0].shape[1]) * 3
    want = torch.cat([model.reference(text) for text in x.split(lengths)])
    assert (model.run(x, lengths) - want).abs().max() <= 1e-5 * want.abs().max()


def test_bits_do_not_depend_on_threads_or_other_texts():
    # Fails if a text's bits depend on the number of threads or on the other texts.
    model = Encoder(hidden=80, heads=2, inner=200)
    lengths = [30, 3, 61]
    x = model.draw(sum(lengths), 80)
    together = model.run(x, lengths)
    assert torch.equal(together, torch.cat([model.run(text, [len(text)]) for text in x.split(lengths)]))
    threads = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            assert torch.equal(together, model.run(x, lengths))
    finally:
        torch.set_num_threads(threads)


def test_empty_batch_and_no_layers():
    # Fails if an empty batch does not give an empty result, or an encoder without layers changes
    # its input.
    model = Encoder()
    assert model.run(torch.zeros(0, 48), []).shape == (0, 48)
    model.flat = []
    x = torch.randn(3, 48)
    assert torch.equal(model.run(x, [3]), x)


def test_invalid_arguments():
    # Fails if inconsistent sizes reach the kernels.
    model = Encoder()

    def refused(words, x=torch.zeros(4, 48), lengths=(4,), heads=4, activation=1, **places):
        flat = list(model.flat)
        for place, tensor in places.items():
            flat[int(place[1:])] = tensor.to(DEVICE)
        with pytest.raises((ValueError, RuntimeError), match=words):
            encode(x.to(DEVICE), flat, list(lengths), heads, activation, EPS)
            accelerator.synchronize()

    refused("x has the wrong shape", torch.zeros(4))
    refused("x has the wrong shape", torch.zeros(4, 48).double())
    refused("x has the wrong shape", torch.zeros(48, 4).t())
    for heads in (0, -1, 5, 1 << 40):
        refused("hidden is not divisible by heads", heads=heads)
    for activation in (-1, 5):
        refused("activation is out of range", activation=activation)
    for lengths in ((3,), (5,), (4, 1), (4, 0), (-1, 5), (), (1 << 62, 1 << 62)):
        refused("lengths does not match x", lengths=lengths)
    refused("query, key and value has the wrong shape", _0=torch.zeros(3, 47, 64))
    refused("a bias has the wrong shape", _1=torch.zeros(143))
    refused("a norm has the wrong shape", _4=torch.zeros(1))
    refused("inner matrix has the wrong shape|down projection has the wrong shape", _7=torch.zeros(65))
    refused("down projection has the wrong shape", _8=torch.zeros(1, 100, 63))
    model.flat.pop()
    refused("wrong number of weights")
    for weight, out in ((torch.zeros(3), torch.zeros(1, 3, 64)), (torch.zeros(65, 3), torch.zeros(1, 3, 64)), (torch.zeros(64, 3).half(), torch.zeros(1, 3, 64)),
                        (torch.zeros(3, 64).t(), torch.zeros(1, 3, 64)), (torch.zeros(64, 3), torch.zeros(1, 3, 64).double())):
        with pytest.raises((ValueError, RuntimeError), match="has the wrong shape|is not a matrix"):
            pack(weight.to(DEVICE), out.to(DEVICE))
            accelerator.synchronize()


def test_opcheck():
    # Fails if the schema declares wrong mutations, or the meta kernel differs from the op.
    if DEVICE != "cpu":
        pytest.skip("opcheck runs on the host's kernel only")
    model = Encoder(layers=1)
    for op, arguments in ((pack, (torch.randn(70, 9), torch.empty(2, 9, 64))), (encode, (torch.randn(5, 48), model.flat, [2, 3], 4, 1, EPS))):
        torch.library.opcheck(op.default, arguments, test_utils=("test_schema", "test_faketensor"))
