"""Tests of checkpoints with quantized matrices (GPTQ, AWQ, compressed-tensors): the results must
equal those of the same weights stored as floats.
"""
import json
import os
import re
import tempfile
import unittest

from random_models import load_file, make, save_file, torch
from shell import shell

import numpy as np

SIZES = dict(vocab_size=97, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=64, initializer_range=0.3, bos_token_id=0, eos_token_id=1, pad_token_id=1)
LONG = " ".join(str(i * 7 % 97) for i in range(2, 42))  # longer than max_decode_rows
SHORT = "5 9 2 40"
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def pack(values, bits):
    """Pack neighboring values of the last dimension into 32-bit words, starting with the lowest
    bits.
    """
    per = 32 // bits
    values = np.pad(values.astype(np.uint32), ((0, 0), (0, -values.shape[1] % per)))
    words = values.reshape(values.shape[0], -1, per) << (np.arange(per, dtype=np.uint32) * bits)
    return torch.from_numpy(np.bitwise_or.reduce(words, axis=2).view(np.int32).copy())


def integers(shape, bits, group, symmetric, random):
    """Return random quantized values of shape [outputs, inputs], scales and zero points of shape
    [outputs, groups], and the group of each input.
    """
    outputs, inputs = shape
    groups = inputs // group
    q = random.integers(0, 2 ** bits, shape)
    scales = (random.random((outputs, groups)) * 0.4 / 2 ** (bits - 1) + 0.02 / 2 ** bits).astype(np.float16)
    zeros = np.full((outputs, groups), 2 ** (bits - 1)) if symmetric else random.integers(0, 2 ** bits, (outputs, groups))
    return q, scales, zeros, np.arange(inputs) // group


def gptq(out, name, q, scales, zeros, index, bits, shift):
    out[name + ".qweight"] = pack(q.T.copy().T, bits).T.contiguous()
    out[name + ".qzeros"] = pack((zeros.T - shift) % 2 ** bits, bits)
    out[name + ".scales"] = torch.from_numpy(scales.T.copy())
    out[name + ".g_idx"] = torch.from_numpy(index.astype(np.int32))


def awq(out, name, q, scales, zeros, _index, bits, _shift):
    def turned(values):
        return pack(values.reshape(values.shape[0], -1, 8)[:, :, AWQ_ORDER].reshape(values.shape), bits)
    out[name + ".qweight"], out[name + ".qzeros"] = turned(q.T), turned(zeros.T)
    out[name + ".scales"] = torch.from_numpy(scales.T.copy())


def packed(out, name, q, scales, zeros, _index, bits, _shift):
    out[name + ".weight_packed"] = pack(q, bits)
    out[name + ".weight_scale"] = torch.from_numpy(scales.copy()).bfloat16()
    out[name + ".weight_shape"] = torch.tensor(q.shape)
    if (zeros != 2 ** (bits - 1)).any():
        out[name + ".weight_zero_point"] = pack(zeros.T, bits).T.contiguous()


def plain_int8(out, name, q, scales, _zeros, _index, _bits, _shift):
    out[name + ".weight"] = torch.from_numpy((q - 128).astype(np.int8))
    out[name + ".weight_scale"] = torch.from_numpy(scales.copy()).bfloat16()


def compressed(form, bits, **more):
    weights = dict(num_bits=bits, type="int", symmetric=True, strategy="group", group_size=32, **more)
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed", "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": None}}}


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}
# name: (writer, config, bits, group size or 0 for all inputs, symmetric, offset of stored zero
# points, whether the order of inputs is permuted, whether the weights stay quantized)
KINDS = {
    "gptq": (gptq, GPTQ, 4, 32, True, 1, False, True),
    "gptq asymmetric": (gptq, dict(GPTQ, sym=False), 4, 32, False, 1, False, True),
    "gptq v2": (gptq, dict(GPTQ, sym=False, checkpoint_format="gptq_v2"), 4, 32, False, 0, False, True),
    "gptq act order": (gptq, dict(GPTQ, desc_act=True), 4, 32, False, 1, True, False),
    "gptq 8 bits": (gptq, dict(GPTQ, bits=8), 8, 32, True, 1, False, True),
    "gptq 8 bits asymmetric": (gptq, dict(GPTQ, bits=8, sym=False), 8, 32, False, 1, False, False),
    "gptq small group": (gptq, dict(GPTQ, group_size=16), 4, 16, True, 1, False, False),
    "awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}, 4, 32, False, 0, False, True),
    "packed 4 bits": (packed, compressed("pack-quantized", 4), 4, 32, True, 0, False, True),
    "packed 4 bits asymmetric": (packed, compressed("pack-quantized", 4), 4, 32, False, 0, False, True),
    "packed 8 bits": (packed, compressed("pack-quantized", 8), 8, 0, True, 0, False, True),
    "int8": (plain_int8, compressed("int-quantized", 8), 8, 0, True, 0, False, True),
}


class StoredIntegers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.cache = os.path.join(self.folder, "cache")

    def run_program(self, line):
        return shell(line, ANYACCEL_MODEL_CACHE=self.cache)

    def write(self, kind):
        """Write and return two folders: one with floats, and one with the equivalent integers."""
        writer, config, bits, group, symmetric, shift, own_order, _ = KINDS[kind]
        random = np.random.default_rng(3)
        plain, stored = os.path.join(self.folder, "plain"), os.path.join(self.folder, "stored")
        make("Llama", plain, SIZES)
        make("Llama", stored, SIZES)
        floats = load_file(os.path.join(plain, "model.safetensors"))
        out = {name: tensor for name, tensor in floats.items() if not re.search(r"layers\..*proj\.weight$", name)}
        for name in sorted(set(floats) - set(out)):
            q, scales, zeros, index = integers(floats[name].shape, bits, group or floats[name].shape[1], symmetric, random)
            if own_order:
                index = random.permutation(index)
            if writer in (packed, plain_int8):  # these formats store scales as bfloat16
                scales = torch.from_numpy(scales).bfloat16().float().numpy()
            wide = scales.astype(np.float32)[:, index] * (q - zeros[:, index])
            floats[name] = torch.from_numpy(wide.astype(np.float32))
            writer(out, name.removesuffix(".weight"), q, scales, zeros, index, bits, shift)
        save_file(floats, os.path.join(plain, "model.safetensors"), metadata={"format": "pt"})
        save_file(out, os.path.join(stored, "model.safetensors"), metadata={"format": "pt"})
        self.edit(stored, quantization_config=config)
        return plain, stored

    def edit(self, folder, **changes):
        path = os.path.join(folder, "config.json")
        with open(path, encoding="utf-8") as file:
            config = dict(json.load(file), **changes)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)

    def logits(self, folder, ids, before="", more=""):
        out = os.path.join(self.folder, "logits.npy")
        done = self.run_program(f"{before} anyaccel generate --model {folder} --prompt-ids '{ids}' --logits-out {out} {more}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.load(out)

    def near(self, got, want, share=2e-4):
        self.assertLessEqual(np.abs(got - want).max(), share * max(1.0, np.abs(want).max()))

    def check(self, kind):
        plain, stored = self.write(kind)
        for ids in (LONG, SHORT):
            want = self.logits(plain, ids)
            self.near(self.logits(stored, ids, more="--no-model-cache"), want)
            self.assertFalse(os.path.exists(self.cache))
        # The second run reads integers from the cache.
        for _ in range(2):
            self.near(self.logits(stored, SHORT), want)
        kept, = os.listdir(self.cache)
        kinds = {tensor.dtype for name, tensor in load_file(os.path.join(self.cache, kept)).items() if name.endswith((".qkv", ".down"))}
        wanted = torch.float32 if not KINDS[kind][-1] else torch.uint8 if KINDS[kind][2] == 4 else torch.int8
        self.assertEqual(kinds, {wanted})

    def test_sim(self):
        # Fails if integers cannot be unpacked on a device.
        plain, stored = self.write("gptq asymmetric")
        self.near(self.logits(stored, LONG, "ANYACCEL_ACCELERATOR=sim"), self.logits(plain, LONG))

    def check_ranks(self, kind, ranks):
        plain, stored = self.write(kind)
        launch = f"env ANYACCEL_CCL=off anyaccel launch -q --oversubscribe --num_accelerators {ranks} "
        together = f"{launch} anyaccel generate --model {stored} --tensor-parallel auto "
        out = os.path.join(self.folder, "ranks.npy")
        for _ in range(2):  # the second run reads from the cache
            done = self.run_program(f"{together} --prompt-ids '{LONG}' --logits-out {out}")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.near(np.load(out), self.logits(plain, LONG))
        ids = [json.loads(self.run_program(f"{line} --prompt-ids '{SHORT}' -n 16 --greedy --json").stdout)["ids"]
               for line in (together + "--self-check", f"anyaccel generate --no-model-cache --model {stored}")]
        self.assertEqual(*ids)
        plan = json.loads(self.run_program(f"anyaccel generate --model {stored} --tensor-parallel {ranks} --plan --json").stdout)
        told = {tensor["name"].removeprefix("model.layers.0.").removesuffix("_proj.weight"): tensor["bits"] for tensor in plan}
        kept = [load_file(os.path.join(self.cache, name)) for name in os.listdir(self.cache)]
        self.assertEqual(len(kept), ranks)  # fails if the second run wrote other files
        stored_as = {torch.int8: 8, torch.uint8: 4, torch.float32: 0}
        for ours, theirs in (("qkv", "self_attn.q"), ("output", "self_attn.o"), ("gate_up", "mlp.up"), ("down", "mlp.down")):
            self.assertEqual(sorted(stored_as[tensors[f"layers.0.{ours}"].dtype] for tensors in kept), sorted(told[theirs]))
        return told

    def test_ranks(self):
        # Fails if several ranks give different results than one rank, or if their shards are not
        # kept quantized as planned.
        self.assertEqual(self.check_ranks("awq", 2)["self_attn.o"], [4, 4])

    def test_ranks_with_row_scales(self):
        # Fails if a scale that applies to all inputs is not used by every rank.
        self.assertEqual(self.check_ranks("int8", 2)["mlp.down"], [8, 8])

    def test_ranks_with_uneven_shards(self):
        # Fails if a shard that starts within a group, such as the 16 inputs of one head, is kept as
        # integers, or if other shards are not.
        told = self.check_ranks("gptq asymmetric", 3)
        self.assertEqual((told["self_attn.o"], told["mlp.down"]), ([0, 0, 4], [4, 4, 4]))

    def test_ranks_with_permuted_inputs(self):
        # Fails if inputs in permuted order are split as if they were adjacent.
        self.assertEqual(self.check_ranks("gptq act order", 2)["mlp.down"], [0, 0])

    def refused(self, folder, *words, status=1, more=""):
        done = self.run_program(f"anyaccel generate --model {folder} --prompt-ids '1 2' -n 1 {more}")
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_inconsistent_tensors(self):
        # Fails if inconsistent tensors are accepted, or if the error does not name the tensor.
        _, stored = self.write("gptq")
        path = os.path.join(stored, "model.safetensors")
        good = load_file(path)
        base = "model.layers.1.mlp.down_proj."
        for part, change in (("g_idx", lambda t: t + 1), ("g_idx", lambda t: t - 1), ("g_idx", lambda t: t[:-1]), ("scales", lambda t: t[:0]),
                             ("scales", lambda t: t.t()), ("scales", lambda t: t.int()), ("qzeros", lambda t: t[:, 1:]),
                             ("qweight", lambda t: t[1:]), ("qweight", lambda t: t.short()), ("qweight", lambda t: t.reshape(-1))):
            save_file(dict(good, **{base + part: change(good[base + part]).contiguous()}), path, metadata={"format": "pt"})
            self.refused(stored, base + part)
        for part in ("scales", "qzeros", "qweight"):
            save_file({name: tensor for name, tensor in good.items() if name != base + part}, path, metadata={"format": "pt"})
            self.refused(stored, "down_proj")

    def test_unsupported_formats(self):
        # Fails if an unsupported format is accepted, or if the error does not name the supported
        # ones.
        _, stored = self.write("gptq")
        self.refused(stored, "already quantized", status=2, more="--quantize int8")
        for config, words in ((dict(GPTQ, bits=3), ("bits", "4 or 8")), (dict(GPTQ, checkpoint_format="marlin"), ("marlin", "gptq_v2")),
                              ({"quant_method": "bitsandbytes"}, ("bitsandbytes", "gptq, awq, compressed-tensors")),
                              ({"quant_method": "awq", "bits": 4, "version": "gemv"}, ("gemv", "gemm")),
                              (compressed("float-quantized", 8), ("float-quantized",)), (compressed("int-quantized", 8, dynamic=False), ("lacks",)),
                              ({"quant_method": "compressed-tensors", "format": "int-quantized"}, ("config_groups",)), (7, ("quantization_config",))):
            self.edit(stored, quantization_config=config)
            self.refused(stored, *words)


for each in KINDS:
    # Fails if integers of this format give different logits than the equivalent floats, with or
    # without the cache. Also fails if weights are not kept quantized as expected.
    setattr(StoredIntegers, "test_" + each.replace(" ", "_"), lambda self, kind=each: self.check(kind))

if __name__ == "__main__":
    unittest.main()
