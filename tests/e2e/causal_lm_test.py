"""Tests that CausalLM gives the same logits, losses and gradients as transformers with eager
attention, for every model family, with padding, packing and activation checkpointing, and that
transformers reads what it saves.
"""
import unittest

from causal_lm_case import DETERMINISTIC, Case, batch, gradients, theirs
import random_models
from family_cases import CASES, SIZES

import torch
import transformers

TIME = 24


def make(case, family, changes):
    return random_models.make(family, case.model_folder, {**SIZES, **DETERMINISTIC, **changes})


def padded(left):
    inputs = batch(3, TIME, seed=2)
    mask = torch.ones(3, TIME, dtype=torch.int64)
    for row, count in ((0, 7), (2, 13)):
        columns = slice(0, count) if left else slice(TIME - count, TIME)
        mask[row, columns] = 0
    # The token before the padding has no next token, and the first real token has no previous one.
    inputs["labels"] = inputs["labels"].masked_fill(mask == 0, -100)
    if left:
        for row, count in ((0, 7), (2, 13)):
            inputs["labels"][row, count] = -100
    return dict(inputs, attention_mask=mask)


def packed(lengths):
    """Return a packed batch of one row, its sequence ids and its position ids."""
    inputs = batch(1, sum(lengths), seed=3)
    sequence = torch.cat([torch.full((length,), i) for i, length in enumerate(lengths)]).unsqueeze(0)
    position = torch.cat([torch.arange(length) for length in lengths]).unsqueeze(0)
    return inputs, sequence, position


def one_by_one(model, inputs, lengths):
    """Return the loss, logits and gradients of packed sequences that are computed separately."""
    model.zero_grad()
    parts = [part for part in zip(inputs["ids"].split(lengths, 1), inputs["labels"].split(lengths, 1))]
    count = sum((labels[:, 1:] != -100).sum().item() for _, labels in parts)
    loss, logits = 0, []
    for ids, labels in parts:
        if ids.size(1) == 1:  # nothing to predict
            logits.append(model(input_ids=ids, use_cache=False).logits.detach())
            continue
        out = model(input_ids=ids, labels=labels, num_items_in_batch=count, use_cache=False)
        out.loss.backward()
        loss += out.loss.detach()
        logits.append(out.logits.detach())
    return loss, torch.cat(logits, 1), gradients(model)


class CausalLM(Case):
    def same(self, name, want, mask=None, logits=True):
        got = self.result(name)
        self.close(got["loss"], want[0], f"{name}: loss")
        if logits:
            real = mask.bool() if mask is not None else torch.ones(want[1].shape[:2], dtype=torch.bool)
            self.close(got["logits"][real], want[1][real], f"{name}: logits")
            self.assertEqual(got["logits"][~real].abs().sum(), 0)
        self.same_gradients(got, want[2])

    def family(self, family, changes, on_sim):
        model = make(self, family, changes)
        names = {name: list(parameter.shape) for name, parameter in model.named_parameters()}
        plain, right, left = batch(2, TIME), padded(left=False), padded(left=True)
        lengths, same_lengths = [9, 1, 5, 12], [8, 8, 8]
        row, sequence, position = packed(lengths)
        even, even_sequence, _ = packed(same_lengths)
        commands = [f"load {self.model_folder}", "train 1",
                    self.step("plain", plain), self.step("chunks", plain, "logits=0"), self.step("items", plain, "items=20"),
                    self.step("items-chunks", plain, "logits=0 items=20"), self.step("right", right), self.step("left", left),
                    self.step("left-chunks", left, "logits=0"), self.step("packed", dict(row, sequence_ids=sequence)),
                    self.step("positions", dict(row, position_ids=position)), self.step("even", dict(even, sequence_ids=even_sequence)),
                    "checkpointing 1", self.step("again", right)]
        self.probe(*commands)
        first = self.result("plain")
        self.assertEqual({name.removeprefix("parameter "): list(value.shape) for name, value in first.items() if name.startswith("parameter ")}, names)
        want = theirs(model, plain)
        self.same("plain", want)
        self.same("chunks", want, logits=False)
        self.assertNotIn("logits", self.result("chunks"))
        counted = theirs(model, plain, num_items_in_batch=20)
        self.same("items", counted)
        self.same("items-chunks", counted, logits=False)
        self.assertEqual(first["count"].item(), (plain["labels"][:, 1:] != -100).sum().item())
        self.same("right", theirs(model, right), right["attention_mask"])
        want = theirs(model, left)
        self.same("left", want, left["attention_mask"])
        self.same("left-chunks", want, logits=False)
        want = one_by_one(model, row, lengths)
        self.same("packed", want)
        self.same("positions", want)
        self.same("even", one_by_one(model, even, same_lengths))
        # Recomputation must give bitwise equal results.
        before, after = self.result("right"), self.result("again")
        self.assertEqual(sorted(before), sorted(after))
        for name, value in before.items():
            self.assertTrue(torch.equal(value, after[name]), name)
        if on_sim:
            self.probe(f"load {self.model_folder}", "train 1", self.step("plain", plain), self.step("right", right, "logits=0"),
                       "checkpointing 1", self.step("packed", dict(row, sequence_ids=sequence)),
                       DS_ACCELERATOR="sim", SIM_CHECK="report")
            self.same("plain", theirs(model, plain))
            self.same("right", theirs(model, right), logits=False)
            self.same("packed", one_by_one(model, row, lengths))


def add(family, name, changes, on_sim):
    def test(self):
        self.family(family, changes, on_sim)
    setattr(CausalLM, f"test_{family}_{name}".replace(" ", "_").replace(",", "").replace("'", ""), test)


class Training(Case):
    # Fails if transformers computes different results with the saved model, if its config.json
    # lacks settings of the original one, or if a loaded model generates different tokens.
    def test_save_pretrained(self):
        for family, changes in (("GPT2", dict(n_positions=64)), ("Phi3", {}), ("Mixtral", dict(num_local_experts=4)),
                                ("Gemma2", dict(head_dim=8, sliding_window=6)), ("OPT", dict(ffn_dim=48, word_embed_proj_dim=20, do_layer_norm_before=False))):
            with self.subTest(family=family):
                model = make(self, family, changes)
                inputs = batch(2, 12)
                tuned = self.folder / f"{family}-tuned"
                self.probe(f"load {self.model_folder}", "train 1", self.step("one", inputs, "logits=0"), "descend 0.05", self.step("two", inputs),
                           f"save {tuned}", f"generate {self.folder / 'ids.out'} 5 4 9 2", "dtype bf16", f"save {tuned}-half")
                theirs(model, inputs)
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter -= 0.05 * parameter.grad
                stored = transformers.AutoModelForCausalLM.from_pretrained(tuned, attn_implementation="eager", dtype="auto").eval()
                for name, parameter in model.named_parameters():
                    self.close(stored.get_parameter(name).detach(), parameter.detach(), name, 1e-5)
                got = self.result("two")
                self.close(got["loss"], theirs(stored, inputs)[0], "loss")
                self.assertEqual(self.result("ids")["ids"].tolist(), random_models.greedy(stored, [4, 9, 2], 5)[0])
                half = transformers.AutoModelForCausalLM.from_pretrained(f"{tuned}-half", dtype="auto")
                self.assertEqual(half.dtype, torch.bfloat16)

    # Fails if dropout is not applied in training, is applied in evaluation, or draws different
    # numbers when layers are recomputed.
    def test_dropout(self):
        for family, changes in (("GPT2", dict(embd_pdrop=0.2, attn_pdrop=0.3, resid_pdrop=0.1)), ("Llama", dict(attention_dropout=0.4)),
                                ("OPT", dict(ffn_dim=48, dropout=0.2, attention_dropout=0.3)), ("Gemma2", dict(head_dim=8, attention_dropout=0.4))):
            with self.subTest(family=family):
                model = random_models.make(family, self.model_folder, {**SIZES, **DETERMINISTIC, **changes})
                inputs = batch(2, 12)
                self.probe(f"load {self.model_folder}", self.step("eval", inputs), "train 1", "reseed 3", self.step("first", inputs),
                           "reseed 4", self.step("other", inputs), "checkpointing 1", "reseed 3", self.step("again", inputs))
                self.close(self.result("eval")["loss"], theirs(model, inputs)[0], "loss")
                losses = [self.result(name)["loss"].item() for name in ("eval", "first", "other")]
                self.assertEqual(len(set(losses)), 3)
                for name, value in self.result("first").items():
                    self.assertTrue(torch.equal(value, self.result("again")[name]), name)

    # Fails if a model of any family cannot be created from its config.json alone and saved.
    def test_random_weights(self):
        make(self, "Qwen3", dict(head_dim=8))
        (self.model_folder / "model.safetensors").unlink()
        self.probe(f"random {self.model_folder} 7", self.step("one", batch(2, 12)), f"save {self.folder / 'new'}")
        stored = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "new", attn_implementation="eager")
        self.close(self.result("one")["loss"], theirs(stored, batch(2, 12))[0], "loss")
        self.assertAlmostEqual(stored.get_parameter("model.layers.0.mlp.up_proj.weight").std().item(), SIZES["initializer_range"], delta=0.01)

    # Fails if bfloat16 gradients have larger errors than those of transformers.
    def test_bfloat16(self):
        model = make(self, "Llama", {})
        inputs = padded(left=False)
        self.probe(f"load {self.model_folder} dtype=bf16", "train 1", self.step("dense", inputs), self.step("chunks", inputs, "logits=0"))
        want = theirs(model, inputs)[2]
        half = theirs(model.to(torch.bfloat16), inputs)[2]
        for name in ("dense", "chunks"):
            got = self.result(name)
            error, usual = (sum((value[key].float() - want[key.removeprefix("gradient ")]).square().sum() for key in value)
                            for value in ({k: v for k, v in got.items() if k.startswith("gradient ")}, {"gradient " + k: v for k, v in half.items()}))
            self.assertLess(error.item(), 1.5 * usual.item(), name)

    # Fails if invalid input is accepted, or if the error does not name the tensor.
    def test_bad_input(self):
        make(self, "Llama", {})
        inputs = batch(2, 12)
        hole = torch.ones(2, 12, dtype=torch.int64)
        hole[1, 4] = 0
        for changes, message in ((dict(labels=inputs["labels"][:, :5]), "labels has a different shape than ids; got [2, 5], want [2, 12]"),
                                 (dict(ids=inputs["ids"] + 60), "ids has a value out of range"),
                                 (dict(labels=inputs["labels"] + 60), "labels has a value out of range"),
                                 (dict(attention_mask=hole), "padding in the middle of a sequence; got row 1, column 4"),
                                 (dict(attention_mask=hole * 0), "excludes all tokens"),
                                 (dict(attention_mask=hole.float()), "attention_mask has the wrong dtype"),
                                 (dict(position_ids=inputs["ids"] - 100), "position_ids has a negative value"),
                                 (dict(position_ids=inputs["ids"] + 200), "longer than the model's context")):
            with self.subTest(message=message):
                self.probe(f"load {self.model_folder}", self.step("bad", {**inputs, **changes}), fails=message)


# Each test fails if a family's parameter names, logits, losses or gradients differ from those of
# transformers.
seen = set()
for case in [*CASES, ("Llama", "padding id that occurs in the text", dict(pad_token_id=5, tie_word_embeddings=True))]:
    add(*case, on_sim=case[0] not in seen)
    seen.add(case[0])


if __name__ == "__main__":
    unittest.main()
