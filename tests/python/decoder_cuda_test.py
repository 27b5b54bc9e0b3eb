"""Tests of the decoder pass on a CUDA device that decoder_test.py does not cover: streams, graphs,
long caches, and agreement with the host. Skipped without a device.
"""

import pytest
import torch

import anyaccel

from decoder_case import Model, decode

accelerator = anyaccel.get_accelerator()
DEVICE = accelerator.current_device_name()
linear = torch.ops.anyaccel.inference_linear


def begin(kind, past):
    """Return a model on the device, input rows, and caches with random contents at `past`
    positions.
    """
    model = Model(**kind)
    x = torch.randn(3, model.hidden, generator=model.random)
    caches = [model.caches(past + 8) for _ in range(2)]
    for each in caches[0] + caches[1]:
        each.copy_(torch.randn(each.shape, generator=model.random))
    return model, x, caches


@pytest.mark.parametrize("past", [5, 300, 20000])
@pytest.mark.parametrize("kind", [{}, {"dtype": torch.bfloat16, "heads": 8, "kv_heads": 1, "dim": 128, "window": 1000}, {"bits": 4, "group": 64, "inner": 192}])
def test_matches_the_host(kind, past):
    # Fails if the result differs from the host's, with attention split over a long cache, with
    # heads that share a key head, or with a window.
    model, x, (keys, values) = begin(kind, past)
    on_host = [[each.cpu() for each in part] for part in (keys, values)]
    got = model.run(x, keys, values, past)
    logits = torch.zeros(len(x), model.vocab)
    decode(x.clone(), [None if each is None else each.cpu() for each in model.flat], *on_host, [each.cpu() for each in model.angles(past, len(x))],
           [past], [len(x)], model.config.pack(), logits)
    error = 2e-2 if kind.get("dtype") else 1e-3 if kind.get("bits") else 1e-4
    assert (got - logits).abs().max() <= error * logits.abs().max()


def test_on_another_stream():
    # Fails if a kernel runs on the default stream, which does not wait for the copy.
    model, x, (keys, values) = begin({"hidden": 512, "inner": 1024}, 100)
    want = model.run(x, [each.clone() for each in keys], [each.clone() for each in values], 100)
    stream = accelerator.Stream()
    rows, logits = torch.zeros_like(x, device=DEVICE), torch.zeros(len(x), model.vocab, device=DEVICE)
    source, angles = x.to(DEVICE), model.angles(100, len(x))
    accelerator.synchronize()
    with accelerator.stream(stream):
        torch.cuda._sleep(20_000_000)
        rows.copy_(source)
        decode(rows, model.flat, keys, values, angles, [100], [len(x)], model.config.pack(), logits)
    stream.synchronize()
    assert torch.equal(logits.cpu(), want)


@pytest.mark.parametrize("kind", [{}, {"bits": 8}, {"experts": 4, "per_token": 2}])
def test_in_a_graph(kind):
    # Fails if the pass cannot be captured, because it synchronizes or allocates outside torch's
    # allocator, or reads host memory during replay.
    model, x, (keys, values) = begin(kind, 600)
    rows, logits = x.to(DEVICE, copy=True), torch.zeros(len(x), model.vocab, device=DEVICE)
    angles = model.angles(600, len(x))

    def call():
        decode(rows, model.flat, keys, values, angles, [600], [len(x)], model.config.pack(), logits)

    call()
    want = logits.clone()
    rows.copy_(x)
    accelerator.synchronize()
    graph = accelerator.create_graph()
    with accelerator.capture_to_graph(graph):
        call()
    for _ in range(3):
        rows.copy_(x)
        logits.zero_()
        accelerator.replay_graph(graph)
        assert torch.equal(logits, want)


@pytest.mark.parametrize("shape", [(4096, 4096), (11008, 4096), (1000, 14336)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_of_model_sizes(shape, dtype):
    # Fails if a matrix with more blocks or longer rows than in the other tests gives wrong results.
    random = torch.Generator().manual_seed(3)
    weight = (torch.randn(*shape, generator=random) / shape[1] ** 0.5).to(dtype)
    x = torch.randn(16, shape[1], generator=random)
    want = x.double() @ weight.double().t()
    there = weight.to(DEVICE)
    for rows in (1, 3, 16):
        got = linear(x[:rows].to(DEVICE), there, None, None, None).cpu()
        assert (got - want[:rows]).abs().max() <= 2e-5 * want.abs().max()
    made, scales = torch.ops.anyaccel.inference_quantize(there, 4, 128 if shape[1] % 128 == 0 else 32)
    wide = torch.ops.anyaccel.inference_dequantize(made, scales, None, 0, shape[0], torch.float32)
    got = linear(x.to(DEVICE), made, scales, None, None)
    want = x.to(DEVICE).double() @ wide.double().t()
    assert (got - want).abs().max() <= 2e-5 * want.abs().max()


def test_mixed_devices_are_rejected():
    # Fails if a host tensor reaches a CUDA kernel.
    model, x, (keys, values) = begin({}, 5)
    with pytest.raises((ValueError, RuntimeError), match="a different device"):
        model.flat[0] = model.flat[0].cpu()
        model.run(x, keys, values, 5)
    with pytest.raises((ValueError, RuntimeError), match="a different device"):
        linear(x, torch.zeros(8, 64, device=DEVICE), None, None, None)
