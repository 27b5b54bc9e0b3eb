"""The op that runs a few tokens through a decoder, compared with plain torch in float64.
DS_ACCELERATOR selects the accelerator.
"""

import dataclasses
import math

import pytest
import torch

from decoder_case import DEVICE, KINDS, Model, accelerator, decode


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_against_torch(kind, dtype):
    # Fails if the result differs from the reference for some kind of layer, weight format or cache
    # position.
    model = Model(dtype, **KINDS[kind])
    x = torch.randn(9, model.hidden, generator=model.random)
    keys, values = model.caches(11), model.caches(11)
    got = torch.cat([model.run(x[:4], keys, values, 0), model.run(x[4:5], keys, values, 4), model.run(x[5:], keys, values, 5)])
    want = model.reference(x)
    # The reference rounds the cache to the dtype in a different order.
    error = {torch.float32: 2e-4 if model.bits else 2e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}[dtype]
    assert (got - want).abs().max() <= error * want.abs().max()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not KINDS[kind].get("experts")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_many_rows_against_torch(kind, dtype):
    # Fails if a query in a large block attends to too many or too few keys, or a pass over many
    # rows fills the cache differently than a pass over few rows.
    model = Model(dtype, **KINDS[kind])
    x = torch.randn(109, model.hidden, generator=model.random)
    keys, values = model.caches(120), model.caches(120)
    got = torch.cat([model.run(x[:67], keys, values, 0), model.run(x[67:70], keys, values, 67), model.run(x[70:], keys, values, 70)])
    want = model.reference(x)
    # CPUs with bfloat16 dot products round the rows to bfloat16 for each product.
    error = {torch.float32: 2e-4 if model.bits else 2e-5, torch.float16: 4e-3, torch.bfloat16: 8e-2}[dtype]
    assert (got - want).abs().max() <= error * want.abs().max()
    assert (got - want).norm() <= error / 3 * want.norm()


@pytest.mark.parametrize("kind", ["llama", "gemma", "int4"])
def test_many_rows_of_sequences(kind):
    # Fails if a sequence in a pass over many rows attends to another sequence, or logits belong to
    # the wrong row.
    model = Model(**KINDS[kind])
    pasts, counts = [0, 9, 0], [30, 17, 1]
    caches = [(model.caches(40), model.caches(40)) for _ in counts]
    first = torch.randn(9, model.hidden, generator=model.random)
    model.run(first, *caches[1], 0)
    x = torch.randn(sum(counts), model.hidden, generator=model.random)
    given = sum((keys for keys, _ in caches), []), sum((values for _, values in caches), [])
    got = model.run_segments(x, *given, pasts, counts)
    parts = list(x.split(counts))
    parts[1] = torch.cat([first, parts[1]])
    want = torch.cat([model.reference(rows)[-count:] for rows, count in zip(parts, counts)])
    assert (got - want).abs().max() <= (2e-4 if model.bits else 2e-5) * want.abs().max()
    last = model.run_segments(x, *given, pasts, counts, last_only=True)
    ends = [29, 46, 47]
    assert (last - got[ends]).abs().max() <= 1e-4 * want.abs().max()
    few = [rows[:2] for rows in x.split(counts)]
    both = [model.run_segments(torch.cat(few), *given, [3, 20, 5], [2, 2, 1], last_only=last_only) for last_only in (False, True)]
    assert torch.equal(both[0][[1, 3, 4]], both[1])


@pytest.mark.parametrize("kind", KINDS)
def test_row_bits_do_not_depend_on_other_rows(kind):
    # Fails if a row's bits depend on the number of rows or threads.
    model = Model(torch.bfloat16, **KINDS[kind])
    x = torch.randn(13, model.hidden, generator=model.random)
    keys, values = model.caches(16), model.caches(16)
    together = model.run(x, keys, values, 0)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        again, more = model.caches(16), model.caches(16)
        alone = torch.cat([model.run(row[None], again, more, i) for i, row in enumerate(x)])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(together, alone)
    assert all(torch.equal(a, b) for a, b in zip(keys + values, again + more))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sequence_bits_do_not_depend_on_other_sequences(kind, dtype):
    # Fails if a row attends to another sequence's positions, or its bits depend on the other
    # sequences.
    model = Model(dtype, **KINDS[kind])
    capacities, pasts = [7, 16, 9], [0, 11, 3]
    caches, singles = [], []
    for capacity, past in zip(capacities, pasts):
        keys, values = model.caches(capacity), model.caches(capacity)
        if past:
            model.run(torch.randn(past, model.hidden, generator=model.random), keys, values, 0)
        caches.append((keys, values))
        singles.append(([each.clone() for each in keys], [each.clone() for each in values]))
    for count in ([5, 1, 4], [1, 1, 1], [1, 3, 1]):
        x = torch.randn(sum(count), model.hidden, generator=model.random)
        got = model.run_segments(x, sum((keys for keys, _ in caches), []), sum((values for _, values in caches), []), pasts, count)
        alone = [model.run(rows, *singles[i], pasts[i]) for i, rows in enumerate(x.split(count))]
        assert torch.equal(got, torch.cat(alone))
        pasts = [past + more for past, more in zip(pasts, count)]
    for ours, theirs in zip(caches, singles):
        assert all(torch.equal(a, b) for a, b in zip(ours[0] + ours[1], theirs[0] + theirs[1]))


@pytest.mark.parametrize("kind", ["llama", "gpt2", "int4 zeros", "experts"])
def test_partial_results_sum_to_the_whole(kind):
    # Fails if the partial results of ranks that split a layer do not add up to the result of the
    # whole layer.
    model = Model(**KINDS[kind])
    x = torch.randn(3, model.hidden, generator=model.random)
    keys, values = model.caches(4), model.caches(4)
    want = model.run(x, keys, values, 0)
    halves_keys, halves_values = model.caches(4), model.caches(4)
    rows, logits = x.to(DEVICE, copy=True), torch.zeros(3, model.vocab, device=DEVICE)
    slots = (len(model.flat) - 6) // model.layers
    for i in range(model.layers):
        for half in (1, 2):
            change = torch.full_like(rows, 7)
            before = rows.clone()
            decode(rows, model.flat[i * slots:(i + 1) * slots] + [None] * 6, halves_keys[i:i + 1], halves_values[i:i + 1], model.angles(0, 3), [0], [3],
                   model.config_of(i, part=half, attention_softcap=0.0).pack(), None, change)
            assert torch.equal(rows, before)
            rows += change
    # Without layers, positions have no effect.
    decode(rows, model.flat[-6:], [], [], [], [(1 << 63) - 1], [3], model.config_of(attention_softcap=0.0).pack(), logits)
    torch.testing.assert_close(logits.cpu(), want, rtol=1e-5, atol=1e-5)
    assert all(torch.equal(a, b) for a, b in zip(keys + values, halves_keys + halves_values))


def test_experts_with_nan_scores():
    # Fails if a row with NaN scores selects a nonexistent expert, or affects other rows.
    model = Model(experts=5, per_token=2)
    x = torch.randn(3, model.hidden, generator=model.random)
    want = model.run_segments(x, *(model.caches(4) + model.caches(4) + model.caches(4) for _ in range(2)), [0] * 3, [1] * 3)
    x[1] = math.nan
    got = model.run_segments(x, *(model.caches(4) + model.caches(4) + model.caches(4) for _ in range(2)), [0] * 3, [1] * 3)
    assert got[1].isnan().all() and torch.equal(got[::2], want[::2])


def test_invalid_arguments():
    # Fails if inconsistent sizes reach the kernels.
    model = Model()
    x = torch.randn(2, model.hidden)

    def refused(words, change, rows=x, past=0, capacity=4, model=model):
        keys, values = model.caches(capacity), model.caches(capacity)
        flat = list(model.flat)
        arguments = {"flat": flat, "keys": keys, "values": values, "config": dataclasses.replace(model.config, layers=list(model.config.layers)), "packed": None,
                     "logits": torch.zeros(len(rows), model.vocab, device=DEVICE), "angles": model.angles(past, len(rows)), 
                     "past": [past], "rows": [len(rows)], "sum_group": ""}
        change(arguments)
        with pytest.raises((ValueError, RuntimeError), match=words):
            decode(rows.to(DEVICE), arguments["flat"], arguments["keys"], arguments["values"], arguments["angles"], arguments["past"], arguments["rows"],
                   arguments["packed"] or arguments["config"].pack(), arguments["logits"], sum_group=arguments["sum_group"])
            accelerator.synchronize()

    refused("positions are out of range", lambda a: None, past=3)
    refused("positions are out of range", lambda a: None, past=-1)
    refused("x has the wrong shape or dtype", lambda a: None, rows=torch.randn(513, model.hidden), capacity=600)
    refused("x has the wrong shape or dtype", lambda a: None, rows=x.double())
    refused("wrong number of weights", lambda a: a["flat"].pop())
    refused("number of inputs", lambda a: a["flat"].__setitem__(2, torch.zeros(128, 63, device=DEVICE)))
    refused("number of outputs", lambda a: a["flat"].__setitem__(2, torch.zeros(127, 64, device=DEVICE)))
    refused("wrong size", lambda a: a["flat"].__setitem__(0, torch.zeros(63, device=DEVICE)))
    refused("not contiguous", lambda a: a["flat"].__setitem__(2, torch.zeros(64, 128, device=DEVICE).t()))
    refused("scales", lambda a: a["flat"].__setitem__(2, torch.zeros(128, 64, dtype=torch.int8, device=DEVICE)))
    refused("dtype", lambda a: a["flat"].__setitem__(2, torch.zeros(128, 64, dtype=torch.float64, device=DEVICE)))
    refused("cache has the wrong shape", lambda a: a["keys"].__setitem__(1, torch.zeros(1, 2, 3, 16, device=DEVICE)))
    refused("differ in dtype", lambda a: a["keys"].__setitem__(0, a["keys"][0].half()))
    def configured(**values):
        return lambda a: [setattr(a["config"], name, value) for name, value in values.items()]

    refused("not divisible", configured(num_kv_heads=3))
    refused("head_dim is out of range", configured(head_dim=513))
    for group, first in ((4, 0), (3, 3), (1, 0), (2, -1), (0, 1), (1 << 30, 0)):  # 4 heads, 2 key heads
        refused("number of key heads|out of range", configured(heads_per_kv_head=group, first_head=first))
    for name in ("norm", "activation", "part"):
        refused(f"{name} is out of range", configured(**{name: 9}))
    refused("flag is out of range", configured(gated=2))
    refused("part requires a single layer", configured(part=1))
    refused("sum_attention and sum_feed_forward do not match", configured(sum_attention=1))
    refused("sum_attention and sum_feed_forward do not match", lambda a: a.update(sum_group="x"))
    refused("not loaded|no group", lambda a: (configured(sum_attention=1, sum_feed_forward=1)(a), a.update(sum_group="x")))
    refused("unsupported config version", lambda a: a.update(packed=[0]))
    refused("unsupported config version", lambda a: a.update(packed=[word + 1 if i == 0 else word for i, word in enumerate(a["config"].pack())]))
    refused("does not match num_layers", lambda a: a.update(packed=a["config"].pack()[:-1]))
    refused("lengths of the lists", lambda a: a["config"].layers.clear())
    refused("lengths of the lists", lambda a: a["past"].append(0))
    refused("lengths of the lists", lambda a: a.update(past=[0, 0], rows=[1, 1]))
    refused("lengths of the lists", lambda a: a["values"].pop())

    def two(past=(0, 0), count=(1, 1), capacity=4):
        """Add a second sequence."""
        def change(a):
            a.update(past=list(past), rows=list(count), keys=a["keys"] + model.caches(capacity), values=a["values"] + model.caches(capacity))
        return change

    for count in ((1, 2), (2, 0), (0, 2), (-1, 3), (3, -1), (1 << 62, -(1 << 62) + 2)):
        refused("rows does not match x", two(count=count))
    for past, capacity in ((-1, 4), (4, 4), (2, 2), (1 << 62, 4), ((1 << 63) - 1, 4), (0, 0)):
        refused("positions are out of range", two(past=(0, past), capacity=capacity))
    refused("rows does not match x", lambda a: a.update(past=[], rows=[], keys=[], values=[]))
    nothing = torch.zeros(1, 0, 1 << 58, 16, device=DEVICE)  # same number of elements as a cache whose size overflows
    refused("cache has the wrong shape", lambda a: a.update(keys=[nothing] * 2, values=[nothing] * 2, past=[1 << 40]))
    second = model.caches(5)
    refused("cache has the wrong shape", lambda a: (two()(a), a["keys"].__setitem__(3, second[0])))
    refused("cache has the wrong shape", lambda a: (two()(a), a["values"].__setitem__(2, second[0])))
    refused("angles", lambda a: a["angles"].pop())
    refused("x has the wrong shape or dtype", lambda a: a.update(keys=[], values=[], flat=[None] * 6), rows=torch.zeros(2, 0))
    refused("out of range", configured(experts_per_token=-1))

    moe = Model(experts=4, per_token=2)
    router, first, second = range(40, 43)
    zeros = lambda *shape, **more: torch.zeros(*shape, device=DEVICE, **more)
    for words, place, tensor in (("experts do not match", router, zeros(1, 64)), ("experts do not match", router, zeros(4, 64, 1)), ("router", router, zeros(4, 63)),
                                 ("router", router, zeros(64, 4).t()), ("either a dense", router, None), ("no router", router, None),
                                 ("gate and up", first, None), ("gate and up", first, zeros(4, 95, 64)), ("gate and up", first, zeros(3, 96, 64)),
                                 ("gate and up", first, zeros(4, 96, 63)), ("gate and up", first, zeros(4 * 96, 64)), ("not contiguous", first, zeros(4, 64, 96).mT),
                                 ("dtype", first, zeros(4, 96, 64, dtype=torch.int8)), ("experts do not match", second, None), ("down projections", second, zeros(5, 64, 48)),
                                 ("down projections", second, zeros(4, 63, 48)), ("gate and up", second, zeros(4, 64, 49)), ("experts do not match", second, zeros(4, 64, 0)),
                                 ("either a dense", 26, zeros(96, 64))):
        def change(a):
            a["flat"][place] = tensor
            if words == "either a dense" and tensor is None:
                a["flat"][first] = a["flat"][second] = None
            if place == 26:
                a["flat"][34] = zeros(64, 48)
        refused(words, change, model=moe)
    for taken in (0, 5, 1 << 15):
        refused("experts do not match", configured(experts_per_token=taken), model=moe)
    refused("experts do not match", configured(gated=False), model=moe)
    refused("too many rows for experts", lambda a: None, model=moe, rows=torch.randn(17, 64), capacity=40)
    refused("logits", lambda a: a.__setitem__("logits", torch.zeros(2, 40, device=DEVICE)))


def test_schema():
    # Fails if the schema declares wrong mutations, or the meta kernel is missing.
    model = Model(layers=1)
    keys, values = model.caches(4), model.caches(4)
    arguments = (torch.randn(2, model.hidden, device=DEVICE), model.flat, keys, values, model.angles(0, 2), [0], [2], model.config.pack(),
                 torch.zeros(2, model.vocab, device=DEVICE))
    torch.library.opcheck(decode.default, arguments, test_utils=("test_schema", "test_faketensor"))
