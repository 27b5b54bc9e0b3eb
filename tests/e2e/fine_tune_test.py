"""Tests of `anyaccel train --model` as users run it: the same losses as transformers and PEFT, exact
resuming after a kill, full disks, logs, and folders that transformers and PEFT load.
"""
import json
import math
import os
import signal
import subprocess
import unittest

from fine_tune_case import FineTuneCase, conversations, make_model
from shell import BIN, libtorch_accelerator, shell
from tensorboard_events import fields, records

import numpy
import safetensors.torch
import torch
import transformers

try:
    import peft
except ImportError:
    peft = None

STATE = ("model.safetensors", "training_state.safetensors")


class FineTune(FineTuneCase):
    # Fails if the losses of full fine-tuning differ from those of transformers: wrong labels,
    # order, normalization, schedule, clipping or weight decay, or attention across packed
    # sequences.
    def test_losses_match_transformers(self):
        model, _ = make_model(self.model_folder)
        data = [self.chats(), self.write("texts.jsonl", [{"text": " ".join(turn["content"] for turn in turns) * 6} for turns in conversations(9)])]
        files = " ".join(map(str, data))
        for packing, schedule, batch, accumulation, steps in ((True, "cosine", 2, 2, 100), (False, "linear", 3, 1, 25),
                                                               (True, "constant", 1, 3, 25)):
            with self.subTest(packing=packing, schedule=schedule):
                examples, rows, _ = self.probe(*data, context=64, packing=packing, seed=5)
                options = (f"--data {files} --context 64 --seed 5 --steps {steps} --batch-size {batch} --gradient-accumulation-steps {accumulation} "
                           f"--lr 3e-3 --schedule {schedule} --warmup 0.2 --weight-decay 0.1 {'' if packing else '--no-packing'}")
                got = self.losses(self.tune("out", options))
                theirs = transformers.AutoModelForCausalLM.from_pretrained(self.model_folder, attn_implementation="eager")
                want = self.reference(theirs.train(), examples, rows, 5, steps, batch, accumulation, 3e-3, schedule, 0.2, decay=0.1)
                self.close(got, want)
                self.assertLess(got[-1], 0.9 * got[0])
        # The saved model is the one that transformers trained.
        saved = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "out")
        ids = torch.tensor([examples[0]["ids"]])
        torch.testing.assert_close(saved(ids).logits, theirs.eval()(ids).logits, rtol=2e-2, atol=2e-2)
        self.assertEqual(transformers.AutoTokenizer.from_pretrained(self.folder / "out")("a b")["input_ids"],
                         transformers.AutoTokenizer.from_pretrained(self.model_folder)("a b")["input_ids"])

    # Fails if a family other than Llama cannot be trained, saved and loaded.
    def test_other_families(self):
        for family, changes in (("GPT2", {}), ("Qwen3", dict(head_dim=8)), ("Gemma2", dict(head_dim=8))):
            with self.subTest(family):
                make_model(self.model_folder, family, **changes)
                got = self.losses(self.tune("out", f"--data {self.chats()} --steps 8 --lr 1e-3 --schedule constant"))
                self.assertLess(got[-1], got[0])
                transformers.AutoModelForCausalLM.from_pretrained(self.folder / "out")

    # Fails if LoRA trains different tensors than PEFT, if PEFT cannot load the folder, or if
    # generation with the adapter computes different logits than PEFT.
    @unittest.skipIf(peft is None, "peft is not installed")
    def test_lora_matches_peft(self):
        make_model(self.model_folder)
        data = self.chats()
        examples, rows, _ = self.probe(data, context=64, packing=True, seed=1)
        got = self.result(self.tune("out", f"--data {data} --context 64 --seed 1 --steps 100 --batch-size 2 --gradient-accumulation-steps 1 "
                                           "--lora --lora-r 4 --lora-alpha 8 --lora_targets q_proj,v_proj,down_proj --lr 2e-2 --schedule constant --warmup 0"))
        # The values of A come from different generators, so start PEFT from an adapter of ours.
        self.tune("start", f"--data {data} --context 64 --seed 1 --steps 1 --lr 1e-12 --lora --lora-r 4 --lora-alpha 8 --lora-targets q_proj,v_proj,down_proj")
        base = transformers.AutoModelForCausalLM.from_pretrained(self.model_folder, attn_implementation="eager")
        theirs = peft.PeftModel.from_pretrained(base, self.folder / "start", is_trainable=True)
        want = self.reference(theirs.train(), examples, rows, 1, 100, 2, 1, 2e-2, "constant", 0.0)
        self.close(got[-1]["losses"], want)
        self.assertLess(want[-1], want[0])
        base = transformers.AutoModelForCausalLM.from_pretrained(self.model_folder, attn_implementation="eager")
        saved = peft.PeftModel.from_pretrained(base, self.folder / "out")
        ids = torch.tensor([examples[0]["ids"]])
        torch.testing.assert_close(saved.eval()(ids).logits, theirs.eval()(ids).logits, rtol=2e-2, atol=2e-2)
        self.assertEqual(got[-1]["trained_parameters"], sum(p.numel() for p in theirs.parameters() if p.requires_grad))
        self.assertFalse((self.folder / "out/model.safetensors").exists())
        self.check_generation(saved.eval())

    def check_generation(self, theirs):
        """Check that `anyaccel generate` with the adapter in the folder `out` computes the logits of
        PEFT's model, and that `chat` runs with it.
        """
        out, base = self.folder / "out", self.model_folder
        want = theirs(torch.tensor([[4, 5, 6, 7]])).logits[0]
        command = f"anyaccel generate --prompt-ids '4 5 6 7' --logits-out {self.folder}/logits.npy"
        for options, tolerance in ((f"--model {base} --adapter {out}", 1e-4), (f"--model {out}", 1e-4),
                                   (f"--model {out} --quantize int8", 0.1)):
            done = shell(f"{command} {options}")
            self.assertEqual(done.returncode, 0, done.stderr)
            got = torch.from_numpy(numpy.load(self.folder / "logits.npy")).reshape(want.shape)
            self.assertLess((got - want).abs().max(), tolerance * want.abs().max(), options)
        done = shell(f"printf 'a map\n/exit\n' | anyaccel chat --model {out} -n 4 --greedy")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("do not work with an adapter", shell(f"{command} --model {out} --tensor-parallel 2").stderr)
        base.rename(self.folder / "moved")
        done = shell(f"{command} --model {out}")
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn("pass --model BASE_MODEL --adapter", done.stderr)
        self.assertEqual(shell(f"{command} --model {self.folder}/moved --adapter {out}").returncode, 0)

    # Fails if files of a model that no fine-tuning run wrote are removed from the folder of an
    # adapter, or if those of an earlier run are not.
    def test_other_files_in_folder(self):
        make_model(self.model_folder)
        options = f"--data {self.chats()} --steps 1 "
        model = self.folder / "out/model.safetensors"
        model.parent.mkdir()
        model.write_bytes(b"precious")
        self.losses(self.tune("out", options + "--lora"))
        self.assertEqual(model.read_bytes(), b"precious")
        self.losses(self.tune("out", options))
        self.assertFalse((self.folder / "out/adapter_model.safetensors").exists())
        self.losses(self.tune("out", options + "--lora"))
        self.assertFalse(model.exists())

    # Fails if an adapter over quantized weights does not learn, or if weights are quantized without
    # an adapter.
    def test_quantized_lora(self):
        make_model(self.model_folder, hidden_size=64, intermediate_size=64)
        data = self.chats()
        for bits in ("int8", "int4"):
            got = self.losses(self.tune("out", f"--data {data} --steps 15 --lora --quantize {bits} --lr 1e-2 --schedule constant"))
            self.assertLess(got[-1], 0.9 * got[0])
        self.assertIn("--lora", self.tune("out", f"--data {data} --steps 1 --quantize int4").stderr)

    def killed(self, options, out, when):
        """Start a run and kill it when `when` returns true for its latest line."""
        command = f"exec anyaccel train --model {self.model_folder} --out {self.folder / out} --json {options}"
        environment = dict(os.environ, PATH=BIN + os.pathsep + os.environ["PATH"], OMP_NUM_THREADS="1")
        with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, text=True, env=environment) as process:
            for line in process.stdout:
                if when(json.loads(line)):
                    process.send_signal(signal.SIGKILL)
                    break
            process.stdout.read()
        self.assertEqual(process.returncode, -signal.SIGKILL)

    # Fails if a run that was killed and resumed differs from an uninterrupted one in any bit, in
    # full fine-tuning, with master weights, dropout, adapters, or an evaluation that saves the best
    # weights.
    def test_killed_run_resumes_exactly(self):
        make_model(self.model_folder)
        validation = self.chats(6, "validation.jsonl")
        base = f"--data {self.chats()} --steps 40 --save-every 4 --batch-size 2 --lr 3e-3 --context 48 "
        for options in ("--gradient-accumulation-steps 2", "--dtype bf16 --gradient-accumulation-steps 1", "--lora --lora-dropout 0.2",
                        f"--lora --quantize int8 --dtype bf16 --validation {validation} --eval-every 5"):
            with self.subTest(options):
                whole = self.result(self.tune("whole", base + options))[-1]
                shell(f"rm -rf {self.folder}/parts")
                self.killed(base + options, "parts", lambda line: line.get("step", 0) >= 14)
                done = shell(f"anyaccel train --resume --out {self.folder}/parts --json", OMP_NUM_THREADS="1")
                last = self.result(done)[-1]
                self.assertEqual(last["losses"], whole["losses"][-len(last["losses"]):])
                self.assertIn(40 - len(last["losses"]), (12, 16, 20, 24, 28))
                self.assertEqual(last["best_validation_loss"], whole["best_validation_loss"])
                first, second = self.digests("whole"), self.digests("parts")
                names = [name for name in (*STATE, "adapter_model.safetensors") if name in first]
                self.assertEqual([first[name] for name in names], [second[name] for name in names])

    # Fails if Ctrl-C loses steps, or does not exit with 130.
    def test_interrupt(self):
        make_model(self.model_folder)
        command = f"exec anyaccel train --model {self.model_folder} --data {self.chats()} --out {self.folder}/out --json --steps 2000"
        environment = dict(os.environ, PATH=BIN + os.pathsep + os.environ["PATH"])
        with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, text=True, env=environment) as process:
            for _ in range(3):
                process.stdout.readline()
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read().splitlines()
        self.assertEqual(process.returncode, 130)
        last = json.loads(rest[-1])
        self.assertTrue(last["interrupted"])
        resumed = self.result(shell(f"anyaccel train --resume --out {self.folder}/out --json --steps {last['steps'] + 2}"))
        self.assertEqual([line["step"] for line in resumed[:-1]], [last["steps"] + 1, last["steps"] + 2])

    # Fails if a failed save damages the previous checkpoint. A file size limit simulates a
    # full disk.
    def test_full_disk_keeps_previous_checkpoint(self):
        make_model(self.model_folder)
        data = self.chats()
        self.losses(self.tune("out", f"--data {data} --steps 3"))
        before = self.digests("out")
        done = self.tune("out", f"--data {data} --steps 9 --save-every 2 --seed 4 --log {self.folder}/log", before="trap '' XFSZ; ulimit -f 100; ")
        self.assertEqual(done.returncode, 1)
        self.assertIn("File too large", done.stderr)
        self.assertIn("model.safetensors", done.stderr)
        self.assertEqual(self.digests("out"), before)
        self.losses(self.tune("out", "--resume --steps 5"))

    # Fails if weights that are not finite replace a checkpoint.
    def test_divergence_keeps_previous_checkpoint(self):
        make_model(self.model_folder)
        data = self.chats()
        self.losses(self.tune("out", f"--data {data} --steps 3"))
        before = self.digests("out")
        weights = self.model_folder / "model.safetensors"
        tensors = safetensors.torch.load_file(weights)
        tensors["model.norm.weight"][0] = math.nan
        safetensors.torch.save_file(tensors, weights, {"format": "pt"})
        done = self.tune("out", f"--data {data} --steps 9 --save-every 1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("training diverged in step 1", done.stderr)
        self.assertIn("--lr", done.stderr)
        self.assertEqual(self.digests("out"), before)

    # Fails if a log file on a full disk ends the run.
    def test_full_disk_of_logs(self):
        make_model(self.model_folder)
        done = self.tune("out", f"--data {self.chats()} --steps 3 --log /dev/full")
        self.assertEqual(len(self.losses(done)), 3)
        self.assertIn("/dev/full: No space left on device; training continues", done.stderr)

    # Fails if the validation loss is wrong, if the best weights are not saved, or if held-out
    # sequences are trained on.
    def test_validation(self):
        model, _ = make_model(self.model_folder)
        validation = self.chats(8, "validation.jsonl")
        lines = self.result(self.tune("out", f"--data {self.chats()} --validation {validation} --steps 12 --eval-every 4 --lr 2e-3 --context 64"))
        evaluations = [line for line in lines if "validation_loss" in line and "losses" not in line]
        self.assertEqual([line["step"] for line in evaluations], [4, 8, 12])
        best = min(line["validation_loss"] for line in evaluations)
        self.assertEqual(lines[-1]["best_validation_loss"], best)
        examples, _, _ = self.probe(validation, context=64)
        model = transformers.AutoModelForCausalLM.from_pretrained(self.folder / "out/best")
        total = count = 0
        with torch.no_grad():
            for example in examples:
                labels = torch.tensor(example["labels"][1:64])
                logits = model(torch.tensor([example["ids"][:64]])).logits[0, :-1]
                total += torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum").item()
                count += (labels != -100).sum().item()
        self.assertLess(abs(total / count - best) / best, 1e-3)
        held_out = self.result(self.tune("held", f"--data {self.chats()} --validation-fraction 0.25 --steps 2"))
        self.assertIsNotNone(held_out[-1]["validation_loss"])

    # Fails if a run from random weights does not learn, or reads weights.
    def test_from_scratch(self):
        make_model(self.model_folder)
        (self.model_folder / "model.safetensors").unlink()
        self.write("model/pytorch_model.bin", ["weights"])
        done = self.tune("out", f"--data {self.chats()} --steps 1")
        self.assertIn("unsupported format", done.stderr)
        self.assertNotEqual(done.returncode, 0)
        (self.model_folder / "pytorch_model.bin").unlink()
        data = self.write("text.txt", [" ".join(turn["content"] for turns in conversations(60) for turn in turns) + "\n"])
        got = self.losses(self.tune("out", f"--data {data} --steps 30 --lr 1e-2 --context 32 --seed 3"))
        self.assertLess(got[-1], 0.7 * got[0])
        done = shell(f"anyaccel generate --model {self.folder}/out --prompt 'the model' -n 5 --greedy --raw")
        self.assertEqual(done.returncode, 0, done.stderr)

    # Fails if recomputing activations changes the losses, or if bfloat16 with master weights
    # changes them too much.
    def test_memory_options(self):
        make_model(self.model_folder)
        base = f"--data {self.chats()} --steps 6 --lr 1e-3 "
        plain = self.losses(self.tune("plain", base))
        self.assertEqual(self.losses(self.tune("again", base + "--gradient-checkpointing")), plain)
        self.close(self.losses(self.tune("bf16", base + "--dtype bf16")), plain, 0.05)

    # Fails if a scalar is missing in TensorBoard's files or in the log, or differs from the output.
    def test_logs(self):
        make_model(self.model_folder)
        base = f"--data {self.chats()} --validation-fraction 0.2 --eval-every 2 --log {self.folder}/log.jsonl --tensorboard {self.folder}/events"
        lines = self.result(self.tune("out", base + " --steps 4"))[:-1]
        lines += self.result(self.tune("out", base + " --steps 6 --resume"))[:-1]
        logged = [json.loads(line) for line in (self.folder / "log.jsonl").read_text().splitlines()]
        self.assertEqual(logged, lines)
        scalars = {}
        for path in sorted((self.folder / "events").iterdir(), key=lambda path: path.stat().st_mtime_ns):
            for record in records(path.read_bytes()):
                event = fields(record)
                for value in fields(event[5][0]).get(1, []) if 5 in event else []:
                    tag, number = (fields(value)[key][0] for key in (1, 2))
                    scalars[tag.decode(), event[2][0]] = number
        for line in lines:
            for tag, key in (("train/loss", "loss"), ("train/learning_rate", "lr"), ("validation/loss", "validation_loss")):
                if key in line:
                    self.assertAlmostEqual(scalars[tag, line["step"]], line[key], delta=1e-6 * abs(line[key]) + 1e-12)

    # Fails if the progress text lacks a value, or contains control characters outside a terminal.
    def test_progress(self):
        make_model(self.model_folder)
        done = shell(f"anyaccel train --model {self.model_folder} --data {self.chats()} --out {self.folder}/out --steps 3")
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("step 1", "epoch", "loss", "tokens/s", "MFU", "memory", "left", "24 conversations", "GFLOP/s"):
            self.assertIn(word, done.stderr)
        self.assertIn("trained 3 steps", done.stdout)
        self.assertNotIn("\r", done.stdout + done.stderr)

    # Fails if an invalid option is accepted, or if the error does not name it and the remedy.
    def test_invalid_options(self):
        make_model(self.model_folder)
        data = f"--data {self.chats()} "
        for options, text in (("--steps 1", "--data"), (data + "--lr 50", "lr"), (data + "--context 9999", "at most 128"), (data + "--warmup 1", "warmup"),
                              (data + "--epochs 0", "epochs"), (data + "--dtype fp16", "fp32 or bf16"), (data + "--hidden 64", "--hidden does not apply"),
                              (data + "--lora-r 4", "without --lora"), (data + "--lora --lora-r 0", "lora-r"), (data + "--lora --lora-targets nothing", "nothing"),
                              (data + "--schedule sine", "sine"),
                              (data + "--validation-fraction 1", "validation-fraction"), (data + "--gradient_accumulation_steps 0", "gradient-accumulation-steps")):
            done = self.tune("out", options)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options + done.stderr)
            self.assertIn(text, done.stderr, options)
        done = shell(f"anyaccel train --model {self.model_folder} {data} --out {self.model_folder}")
        self.assertEqual(done.returncode, 2)
        self.assertIn("overwrite", done.stderr)
        done = shell(f"anyaccel train --lora --data {self.chats()} --out {self.folder}/out --steps 1")
        self.assertIn("--lora requires --model", done.stderr)
        self.assertEqual(done.returncode, 2)

    # Fails if a resumed run accepts options that change its results, changed base
    # weights or changed data.
    def test_resume_rejects_changes(self):
        make_model(self.model_folder)
        data = self.chats()
        self.losses(self.tune("out", f"--data {data} --steps 2 --lora --lora-r 4"))
        resume = f"anyaccel train --resume --out {self.folder}/out --json --steps 3 "
        for option in ("--seed 5", "--dtype bf16", "--lora-r 8", "--context 32", "--no-packing", "--lr 1e-3", "--schedule linear"):
            done = shell(resume + option)
            self.assertEqual((done.returncode, done.stdout), (2, ""), option + done.stderr)
            self.assertIn(f"{option.split()[0]} differs from the saved run", done.stderr)
        self.write("chats.jsonl", [{"messages": turns} for turns in conversations(5)])
        self.assertIn("data differ", shell(resume).stderr)
        self.chats()
        self.assertEqual(len(self.losses(shell(resume + "--lora --lora-r 4"))), 1)
        weights = self.model_folder / "model.safetensors"
        tensors = safetensors.torch.load_file(weights)
        tensors["model.layers.1.mlp.down_proj.weight"] *= 1.01
        safetensors.torch.save_file(tensors, weights, {"format": "pt"})
        done = shell(resume.replace("--steps 3", "--steps 4"))
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("the weights of the model differ from those of the saved run", done.stderr)

    # Fails if the ranks of a job train on different data than a single rank, or have different
    # weights.
    def test_ranks(self):
        make_model(self.model_folder)
        for dtype in ("fp32", "bf16"):
            options = (f"--data {self.chats()} --steps 6 --batch-size 2 --gradient-accumulation-steps 3 --lr 1e-3 --validation-fraction 0.2 "
                       f"--dtype {dtype}")
            alone = self.result(self.tune("one", options, DS_ACCELERATOR="cpu"))[-1]
            together = self.last(self.tune("two", options, before="anyaccel launch --num_accelerators 2 ", DS_ACCELERATOR="cpu"))
            self.close(together["losses"], alone["losses"])
            self.assertLess(abs(together["validation_loss"] - alone["validation_loss"]), 1e-3)
            self.assertTrue(together["same_weights"])

    # Fails if training on the simulator gives different losses than on the CPU, or if its checker
    # reports an error. Also covers the simulator in place of CUDA, and two devices.
    def test_sim(self):
        make_model(self.model_folder)
        base = f"--data {self.chats()} --steps 5 --lr 1e-3 --validation-fraction 0.2 --eval-every 2 "
        names = ["sim"] if libtorch_accelerator() else ["sim", "cuda"]
        for options in ("--batch-size 2", "--batch-size 2 --dtype bf16 --gradient-checkpointing", "--lora --lora-dropout 0.1"):
            want = self.losses(self.tune("cpu", base + options, DS_ACCELERATOR="cpu"))
            for name in names:
                with self.subTest(options=options, name=name):
                    variables = dict(DS_ACCELERATOR=name, SIM_CHECK="report", **({"SIM_STANDS_IN_FOR": name} if name != "sim" else {}))
                    done = self.tune("sim", base + options, **variables)
                    self.assertNotIn("sim check", done.stderr)
                    if "dropout" in options:
                        self.close(self.losses(done), want, 0.2)
                        continue
                    self.close(self.losses(done), want)
                    done = self.tune("two", base + options, before="anyaccel launch --num_accelerators 2 ", SIM_DEVICES="2", **variables)
                    self.assertNotIn("sim check", done.stderr)
                    last = self.last(done)
                    self.close(last["losses"], want)
                    self.assertEqual((last["world_size"], last["same_weights"]), (2, True))


if __name__ == "__main__":
    unittest.main()
