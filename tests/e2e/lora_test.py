"""Tests that LoRA adapters give the same results and gradients as PEFT's, that files load in both
directions, and that adapters work over quantized weights.
"""
import json
import sys
import unittest

from causal_lm_case import DETERMINISTIC, Case, batch, theirs
import random_models
from family_cases import SIZES

import torch
from safetensors.torch import load_file, save_file

try:
    import peft
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

# Family, changes to its config, and target modules. Empty: PEFT's default.
CASES = [
    ("Llama", {}, []),
    ("Llama", dict(attention_bias=True, mlp_bias=True), ["k_proj", "o_proj", "up_proj"]),
    ("Qwen3", dict(head_dim=16), ["all-linear"]),
    ("Phi3", {}, ["qkv_proj"]),
    ("Phi3", {}, ["o_proj", "gate_up_proj", "down_proj"]),
    ("Gemma3Text", dict(head_dim=8, sliding_window=6, layer_types=["sliding_attention", "full_attention", "sliding_attention"]), []),
    ("Mixtral", dict(num_local_experts=4), ["q_proj", "k_proj", "v_proj", "o_proj"]),
    ("GPT2", {}, []),
    ("GPT2", {}, ["c_attn", "c_proj", "c_fc"]),
    ("OPT", dict(ffn_dim=48), ["q_proj", "v_proj", "out_proj", "fc1", "fc2"]),
]


def adapted(model, targets, **more):
    """Add PEFT's adapter with random values to a model."""
    config = peft.LoraConfig(r=4, lora_alpha=12, target_modules=targets[0] if targets == ["all-linear"] else targets or None,
                             task_type="CAUSAL_LM", **more)
    made = peft.get_peft_model(model, config)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "lora_B" in name:
                parameter.normal_(0, 0.1)
    return made


def plain_names(tensors):
    """Return PEFT's parameters by name, without the prefix and the adapter's name."""
    return {name.removeprefix("base_model.model.").replace(".default.", "."): value for name, value in tensors.items()}


class Lora(Case):
    def make(self, family, changes):
        return random_models.make(family, self.model_folder, {**SIZES, **DETERMINISTIC, **changes})

    def same_as_theirs(self, name, model, inputs):
        loss, logits, grads = theirs(model, inputs)
        got = self.result(name)
        self.close(got["loss"], loss, f"{name}: loss")
        self.close(got["logits"], logits, f"{name}: logits")
        self.same_gradients(got, plain_names(grads))

    # Fails if an adapter that PEFT wrote gives different losses, logits or gradients in CausalLM,
    # or if an adapter that CausalLM trained does so in PEFT.
    def test_both_directions(self):
        for family, changes, targets in CASES:
            with self.subTest(family=family, targets=targets):
                model = adapted(self.make(family, changes), targets, use_rslora=family == "Qwen3")
                model.save_pretrained(self.folder / "theirs")
                inputs = batch(2, 12)
                self.probe(f"load {self.model_folder}", f"load_adapter {self.folder / 'theirs'}", "train 1", self.step("first", inputs),
                           "checkpointing 1", self.step("again", inputs), self.step("chunks", inputs, "logits=0"),
                           "descend 0.5", self.step("second", inputs), f"save_adapter {self.folder / 'ours'}",
                           f"generate {self.folder / 'ids.out'} 4 5 1 2", "merge", "train 0", self.step("merged", inputs),
                           f"save {self.folder / 'merged'}", f"generate {self.folder / 'same-ids.out'} 4 5 1 2", "unmerge", "train 1",
                           self.step("unmerged", inputs))
                self.same_as_theirs("first", model, inputs)
                for key, value in self.result("first").items():
                    self.assertTrue(torch.equal(value, self.result("again")[key]), key)
                    if key.startswith("gradient"):
                        self.close(self.result("chunks")[key], value, key)
                base = random_models.transformers.AutoModelForCausalLM.from_pretrained(self.model_folder, attn_implementation="eager")
                back = peft.PeftModel.from_pretrained(base, self.folder / "ours", is_trainable=True)
                self.same_as_theirs("second", back, inputs)
                self.assertEqual(json.loads((self.folder / "theirs/adapter_config.json").read_text())["use_rslora"],
                                 json.loads((self.folder / "ours/adapter_config.json").read_text())["use_rslora"])
                self.assertEqual(sorted(load_file(self.folder / "theirs/adapter_model.safetensors")),
                                 sorted(load_file(self.folder / "ours/adapter_model.safetensors")))
                merged, second, unmerged = (self.result(name) for name in ("merged", "second", "unmerged"))
                self.close(merged["logits"], second["logits"], "merged")
                self.close(unmerged["logits"], second["logits"], "unmerged")
                self.assertFalse([name for name in merged if name.startswith("gradient")])
                self.assertEqual(self.result("ids")["ids"].tolist(), self.result("same-ids")["ids"].tolist())
                whole = random_models.transformers.AutoModelForCausalLM.from_pretrained(self.folder / "merged", attn_implementation="eager")
                self.close(random_models.torch.tensor(random_models.logits(whole, inputs["ids"][0].tolist())), second["logits"][0], "saved")

    # Fails if a new adapter adapts different modules than PEFT, changes the model, or draws A from
    # a different distribution.
    def test_inject(self):
        for family, changes, targets in CASES:
            with self.subTest(family=family, targets=targets):
                model = self.make(family, changes)
                inputs = batch(2, 12)
                want = theirs(model, inputs)
                words = f"inject r=8 alpha=16 seed=5 targets={','.join(targets)}"
                names = self.probe(f"load {self.model_folder}", words, "train 1", self.step("one", inputs), "remove", self.step("removed", inputs)).split()
                made = adapted(model, targets)
                theirs_names = {name.rsplit(".lora_A", 1)[0] for name in plain_names(dict(made.named_parameters())) if "lora_A" in name}
                self.assertEqual(set(names), theirs_names)
                got = self.result("one")
                self.close(got["logits"], want[1], "new adapter")
                self.assertTrue(all("lora_" in name for name in got if name.startswith("gradient")))
                for name, value in got.items():
                    if name.startswith("parameter") and "lora_A" in name:
                        bound = value.size(1) ** -0.5
                        self.assertLessEqual(value.abs().max(), bound)
                        self.assertAlmostEqual(value.std().item(), bound / 3 ** 0.5, delta=0.2 * bound)
                self.same_gradients(self.result("removed"), want[2])

    # Fails if outputs or gradients of an adapter over quantized weights, or merging it, differ from
    # those over the dequantized weights by more than rounding.
    def test_quantized(self):
        for family, changes in (("Llama", dict(hidden_size=64, intermediate_size=96)), ("GPT2", dict(n_embd=64, hidden_size=64)),
                                ("Gemma2", dict(hidden_size=64, intermediate_size=96, head_dim=16, tie_word_embeddings=True))):
            for bits in (8, 4):
                with self.subTest(family=family, bits=bits):
                    self.make(family, changes)
                    inputs = batch(2, 12)
                    load = f"load {self.model_folder} bits={bits}"
                    inject = "inject r=4 alpha=64 seed=1 targets=all-linear"
                    self.probe(load, inject, "train 1", self.step("one", inputs), "descend 0.002", self.step("two", inputs),
                               self.step("chunks", inputs, "logits=0"), "checkpointing 1", self.step("again", inputs),
                               f"save_adapter {self.folder / 'adapter'}", "merge", self.step("merged", inputs), "unmerge", self.step("unmerged", inputs))
                    two = self.result("two")
                    self.assertTrue([name for name in two if name.startswith("gradient")])
                    self.assertTrue(all("lora_" in name for name in two if name.startswith("gradient")))
                    for name, value in two.items():
                        self.assertTrue(torch.equal(value, self.result("again")[name]), name)
                        self.assertTrue(torch.equal(value, self.result("unmerged")[name]), name)
                        if name.startswith("gradient"):
                            self.close(self.result("chunks")[name], value, name)
                    # Directional derivative: the decrease of the loss must match the gradients.
                    fell = self.result("one")["loss"] - two["loss"]
                    slope = sum(value.square().sum() for name, value in self.result("one").items() if name.startswith("gradient"))
                    self.assertAlmostEqual((fell / (0.002 * slope)).item(), 1, delta=0.3)
                    self.close(self.result("merged")["logits"], two["logits"], "merged", 0.05 if bits == 8 else 0.5)
                    self.probe(load, f"load_adapter {self.folder / 'adapter'}", "train 1", self.step("loaded", inputs))
                    self.close(self.result("loaded")["logits"], two["logits"], "loaded", 1e-6)

    # Fails if the decoder op's quantized weights are not those of the float path: gradients over
    # int8 weights are compared with those over the dequantized ones.
    def test_quantized_gradients(self):
        model = self.make("Llama", dict(hidden_size=64, intermediate_size=96))
        made = adapted(model, ["all-linear"])
        made.save_pretrained(self.folder / "adapter")
        inputs = batch(2, 12)
        self.probe(f"load {self.model_folder} bits=8", f"load_adapter {self.folder / 'adapter'}", "train 1", self.step("int8", inputs))
        with torch.no_grad():  # groups of 64 and 32 inputs
            for name, parameter in made.named_parameters():
                if "base_layer.weight" in name or "lm_head" in name:
                    group = next(size for size in (128, 64, 32) if parameter.size(1) % size == 0)
                    rows = parameter.view(parameter.size(0), -1, group)
                    scale = rows.abs().amax(-1, keepdim=True) / 127
                    rows.copy_((rows / scale).round() * scale)
        self.same_as_theirs("int8", made, inputs)

    # Fails if dropout is not applied to the adapters' inputs in training.
    def test_dropout(self):
        self.make("Llama", {})
        inputs = batch(2, 12)
        self.probe(f"load {self.model_folder}", "inject r=4 dropout=0.5", "train 1", "reseed 1", self.step("zero", inputs), "descend 1",
                   "reseed 2", self.step("first", inputs), "checkpointing 1", "reseed 2", self.step("again", inputs), "train 0", self.step("eval", inputs))
        for name, value in self.result("first").items():
            self.assertTrue(torch.equal(value, self.result("again")[name]), name)
        self.assertNotEqual(self.result("first")["loss"].item(), self.result("eval")["loss"].item())

    # Fails if adapters do not work on sim, or access memory wrongly.
    def test_sim(self):
        model = adapted(self.make("Llama", {}), ["all-linear"])
        model.save_pretrained(self.folder / "theirs")
        inputs = batch(2, 12)
        self.probe(f"load {self.model_folder}", f"load_adapter {self.folder / 'theirs'}", "train 1", "checkpointing 1", self.step("one", inputs),
                   "merge", "train 0", self.step("merged", inputs), DS_ACCELERATOR="sim", SIM_CHECK="report")
        self.same_as_theirs("one", model, inputs)
        self.close(self.result("merged")["logits"], self.result("one")["logits"], "merged")

    # Fails if an invalid adapter is accepted, or if the error does not name the reason.
    def test_bad_files(self):
        model = adapted(self.make("Llama", {}), [])
        folder = self.folder / "adapter"
        model.save_pretrained(folder)
        config, weights = folder / "adapter_config.json", folder / "adapter_model.safetensors"
        text, tensors = config.read_text(), load_file(weights)

        def check(message):
            self.probe(f"load {self.model_folder}", f"load_adapter {folder}", fails=message)

        for key, value, message in (("use_dora", True, "use_dora"), ("bias", "all", "bias"), ("r", 5, "has the wrong shape"), ("r", 0, '"r"'),
                                    ("init_lora_weights", "pissa", "init_lora_weights"), ("rank_pattern", {"q_proj": 2}, "rank_pattern"),
                                    ("peft_type", "IA3", "peft_type"), ("modules_to_save", ["lm_head"], "modules_to_save"), ("lora_dropout", 2, "lora_dropout")):
            config.write_text(json.dumps({**json.loads(text), key: value}))
            check(message)
        config.write_text(text)
        first = sorted(tensors)[0]
        save_file({name: value for name, value in tensors.items() if name != first}, weights)
        check("lacks tensor")
        save_file({**tensors, "base_model.model.lm_head.lora_A.weight": tensors[first].clone()}, weights)
        check("does not belong to a linear layer")
        weights.write_bytes(b"1234567890")
        check("header does not fit")
        weights.unlink()
        check("adapter_model.safetensors")
        self.probe(f"load {self.model_folder}", "inject targets=q_proj,w_proj", fails='"w_proj"')
        self.probe(f"load {self.model_folder}", "inject r=0", fails="r is out of range")
        self.probe(f"load {self.model_folder}", "inject", "inject", fails="already has an adapter")
        self.probe(f"load {self.model_folder}", "merge", fails="has no adapter")
        self.probe(f"load {self.model_folder}", "inject", f"save {self.folder / 'whole'}", fails="merge_adapter()")


if __name__ == "__main__":
    unittest.main()
