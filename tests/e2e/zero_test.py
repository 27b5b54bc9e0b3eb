"""Tests of `anyaccel train --model` with --zero-stage and --offload-optimizer: the same weights as
without them, resuming with a different number of ranks, killed ranks and full disks.
"""
import json
import os
import pathlib
import signal
import subprocess
import unittest

from fine_tune_case import FineTuneCase, make_model
from shell import BIN, libtorch_accelerator, shell

import safetensors.torch
import torch
import transformers

# oneCCL, if installed, would print a line into the output, which is parsed.
CPU = {"DS_ACCELERATOR": "cpu", "ANYACCEL_CCL": "off"}
# Gradients below this norm are not clipped. Norms that are computed in parts can differ in the last
# bits, and so could clipped gradients.
NO_CLIP = "--clip 1e9 "


def launch(ranks):
    return f"anyaccel launch -q --oversubscribe --num_accelerators {ranks} "


class Zero(FineTuneCase):
    def setUp(self):
        super().setUp()
        make_model(self.model_folder)
        self.data = self.chats()

    def run_ranks(self, out, options, ranks, before="", **variables):
        options = f"--data {self.data} --seed 2 {options}" if "--resume" not in options else options
        return self.tune(out, options, before=before + (launch(ranks) if ranks > 1 else ""), **{**CPU, **variables})

    def train(self, out, options, ranks, **variables):
        result = self.last(self.run_ranks(out, options, ranks, **variables))
        self.assertTrue(result["same_weights"])
        self.assertEqual(result["world_size"], ranks)
        return result["losses"]

    def resume(self, out, options, ranks):
        """Resume a run without --model, like a user does."""
        done = shell(f"{launch(ranks) if ranks > 1 else ''}anyaccel train --resume --out {self.folder / out} --json {options}", OMP_NUM_THREADS="1", **CPU)
        return self.last(done)["losses"]

    def tensors(self, out, adapter=False):
        names = ["training_state", "adapter_model" if adapter else "model"]
        return {f"{name}/{key}": value for name in names
                for key, value in safetensors.torch.load_file(self.folder / out / f"{name}.safetensors").items()}

    def assert_same(self, one, other, adapter=False, limit=None):
        """Check that two runs wrote the same weights and moments, bitwise unless `limit` is given."""
        mine, want = self.tensors(one, adapter), self.tensors(other, adapter)
        self.assertEqual(mine.keys(), want.keys())
        for name, tensor in mine.items():
            self.assertEqual((tensor.dtype, tensor.shape), (want[name].dtype, want[name].shape), name)
            if limit is None:
                self.assertTrue(torch.equal(tensor, want[name]), name)
            else:
                difference = (tensor.float() - want[name].float()).norm()
                self.assertLessEqual(difference, limit * want[name].float().norm() + 1e-12, name)

    # Fails if a stage changes a bit of the weights or moments, for sizes that the number of ranks
    # does not divide, several buckets and bfloat16.
    def test_stages_equal_stage_0(self):
        base = NO_CLIP + "--steps 5 --lr 1e-3 --weight-decay 0.1 --bucket-cap-mb 0.01 --batch-size 3 --gradient-accumulation-steps 1 "
        for ranks, options in ((2, ""), (3, ""), (2, "--dtype bf16 --gradient-checkpointing")):
            want = self.train("stage0", base + options, ranks)
            for stage in (1, 2):
                with self.subTest(options, ranks=ranks, stage=stage):
                    self.assertEqual(self.train("out", f"{base}{options} --zero-stage {stage}", ranks), want)
                    self.assert_same("out", "stage0")
        state = json.loads((self.folder / "out/trainer_state.json").read_text())["options"]
        self.assertEqual((state["zero_stage"], state["offload_optimizer"]), (2, "none"))
        transformers.AutoModelForCausalLM.from_pretrained(self.folder / "out")

    # Fails if accumulation or clipping differs from stage 0 by more than rounding, even if ranks
    # run different numbers of forward passes: the last step of the epoch has 5 rows.
    def test_accumulation(self):
        data = "--epochs 1 --lr 1e-3 --no-packing --batch-size 2 --gradient-accumulation-steps 4 --clip 0.1 "
        self.data = self.chats(21)
        want = self.train("stage0", data, 2)
        for stage in (1, 2):
            self.close(self.train("out", data + f"--zero-stage {stage}", 2), want, 1e-5)
            self.assert_same("out", "stage0", limit=1e-3)

    # Fails if a LoRA adapter, whose parameters are float32 in a bfloat16 model, or a GPT-2 model,
    # whose matrices are transposed, is trained differently.
    def test_adapters_and_families(self):
        base = NO_CLIP + "--steps 4 --batch-size 3 --gradient-accumulation-steps 1 "
        for options in ("--lora --lora-r 4", "--lora --dtype bf16"):
            want = self.train("stage0", base + options, 2)
            self.assertEqual(self.train("out", f"{base}{options} --zero-stage 2", 2), want)
            self.assert_same("out", "stage0", adapter=True)
            self.train("disk", f"{base}{options} --offload-optimizer nvme", 1)
        self.model_folder = self.folder / "gpt2"
        make_model(self.model_folder, "GPT2")
        want = self.train("first", base, 2)
        self.assertEqual(self.train("second", base + "--zero-stage 1", 2), want)
        self.assert_same("second", "first")
        self.resume("second", "--steps 5", 3)
        self.resume("first", "--steps 5", 3)
        self.assert_same("second", "first")

    # Fails if offloading changes the weights by more than the rounding of CPUAdam, if host memory
    # and a file give different results, or if the file remains.
    def test_offload(self):
        base = NO_CLIP + "--steps 5 --lr 1e-3 --weight-decay 0.1 --batch-size 2 --gradient-accumulation-steps 2 "
        disk = self.folder / "disk"
        for options in ("", "--dtype bf16"):
            for ranks, stage in ((1, 1), (2, 1), (2, 2)):
                with self.subTest(options, ranks=ranks, stage=stage):
                    want = self.train("none", f"{base}{options} --zero-stage {stage}", ranks)
                    cpu = self.train("cpu", f"{base}{options} --zero-stage {stage} --offload-optimizer cpu", ranks)
                    self.close(cpu, want, 1e-3 if options else 1e-5)
                    self.assert_same("cpu", "none", limit=1e-2 if options else 1e-4)
                    nvme = self.train("nvme", f"{base}{options} --zero-stage {stage} --offload-optimizer nvme --offload-path {disk}", ranks)
                    self.assertEqual(nvme, cpu)
                    self.assert_same("nvme", "cpu")
        self.assertEqual(list(disk.iterdir()), [])

    # Fails if resuming with another number of ranks, stage or offload device loses moments, weights
    # or steps.
    def test_resume_with_other_ranks(self):
        options = "--lr 1e-3 --batch-size 6 --gradient-accumulation-steps 1 --dtype bf16 --schedule constant "
        whole = self.train("whole", options + "--steps 12", 1)
        parts = self.train("parts", options + "--steps 3 --zero-stage 2 --offload-optimizer nvme", 2)
        parts += self.resume("parts", "--steps 5", 1)
        self.assertEqual(json.loads((self.folder / "parts/trainer_state.json").read_text())["options"]["offload_optimizer"], "nvme")
        parts += self.resume("parts", "--steps 8 --zero-stage 1 --offload-optimizer none", 3)
        parts += self.resume("parts", "--steps 10 --offload-optimizer cpu", 2)
        parts += self.resume("parts", "--steps 12 --zero-stage 0 --offload-optimizer none", 2)
        self.close(parts, whole, 1e-2)
        self.assertEqual(self.tensors("parts")["training_state/step"].item(), 12)

    # Fails if a checkpoint of a sharded run does not contain exactly the state with which the run
    # continues.
    def test_resume_is_exact(self):
        base = "--lr 1e-3 --batch-size 2 --gradient-accumulation-steps 1 --schedule constant --warmup 0 --dtype bf16 "
        for offload in ("none", "cpu", "nvme"):
            with self.subTest(offload):
                options = f"{base} --zero-stage 2 --offload-optimizer {offload} "
                want = self.train("whole", options + "--steps 6", 2)
                got = self.train("parts", options + "--steps 4", 2)
                self.assertEqual(got + self.resume("parts", "--steps 6", 2), want)
                self.assert_same("parts", "whole")

    def start(self, options, ranks=2):
        """Start a job and return its process after a few training steps."""
        environment = dict(os.environ, PATH=BIN + os.pathsep + os.environ["PATH"], OMP_NUM_THREADS="1", **CPU)
        command = f"exec {launch(ranks)}anyaccel train --model {self.model_folder} --data {self.data} --out {self.folder}/out --json {options}"
        process = subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                                   start_new_session=True)
        for clean_up in (process.stderr.close, process.stdout.close, process.wait, process.kill):
            self.addCleanup(clean_up)
        for _ in range(5):
            self.assertTrue(process.stdout.readline())
        return process

    def process_of_rank(self, rank):
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                command = pathlib.Path("/proc", name, "cmdline").read_bytes().split(b"\0")
                if command[1:2] == [b"train"] and os.fsencode(self.folder) in b" ".join(command):
                    if f"RANK={rank}".encode() in pathlib.Path("/proc", name, "environ").read_bytes().split(b"\0"):
                        return int(name)
            except OSError:
                pass
        self.fail("no such rank")

    # Fails if other ranks wait for a killed rank, if no error names it, if the checkpoint cannot be
    # resumed with the remaining ranks, or if a file of the state remains.
    def test_killed_rank(self):
        disk = self.folder / "disk"
        for rank in (1, 0):
            process = self.start(f"--steps 1000000 --save-every 1 --zero-stage 2 --offload-optimizer nvme --offload-path {disk}")
            os.kill(self.process_of_rank(rank), signal.SIGKILL)
            _, errors = process.communicate(timeout=100)
            self.assertNotEqual(process.returncode, 0, errors)
            self.assertIn(f"rank {rank}", errors)
            self.assertEqual(list(disk.iterdir()), [])
            step = json.loads((self.folder / "out/trainer_state.json").read_text())["step"]
            self.assertGreaterEqual(step, 3)
            self.assertEqual(len(self.resume("out", f"--steps {step + 2} --offload-optimizer none", 1)), 2)

    # Fails if a failed save damages the previous checkpoint, or if an error does not name the rank
    # and the path. A file size limit simulates a full disk.
    def test_full_disk(self):
        options = "--lr 1e-3 --batch-size 2 --gradient-accumulation-steps 1 --zero-stage 1 "
        self.train("out", options + "--steps 3", 2)
        before = self.digests("out")
        limit = "trap '' XFSZ; ulimit -f 100; "
        done = self.run_ranks("out", options + "--steps 9 --save-every 2", 2, before=limit)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("[rank 0] [write_file] cannot write", done.stderr)
        self.assertIn("File too large", done.stderr)
        self.assertIn("model.safetensors", done.stderr)
        self.assertEqual(self.digests("out"), before)
        done = self.run_ranks("out", options + f"--steps 9 --offload-optimizer nvme --offload-path {self.folder}/disk", 2, before="trap '' XFSZ; ulimit -f 10; ")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"\[rank \d\] \[offload_optimizer\] no space for the optimizer's state in [^:]*/disk: File too large; got \d+ MiB free, want")
        self.assertEqual(self.digests("out"), before)
        self.assertEqual(len(self.resume("out", "--steps 5", 1)), 2)

    # Fails if two simulated devices train differently than the CPU, or if the checker reports an
    # error.
    def test_simulated_devices(self):
        if libtorch_accelerator():
            self.skipTest("the simulator is tested with LibTorch's CPU build")
        variables = dict(DS_ACCELERATOR="sim", SIM_CHECK="report", SIM_DEVICES="2")
        base = "--steps 4 --lr 1e-3 --batch-size 2 --gradient-accumulation-steps 2 "
        for dtype in ("fp32", "bf16"):
            want = self.train("cpu", base + f"--dtype {dtype}", 2)
            for options in ("--zero-stage 1", "--zero-stage 2", "--zero-stage 1 --offload-optimizer cpu", "--zero-stage 2 --offload-optimizer cpu",
                            "--zero-stage 2 --offload-optimizer nvme"):
                with self.subTest(options, dtype=dtype):
                    done = self.run_ranks("sim", f"{base}--dtype {dtype} {options}", 2, **variables)
                    self.assertNotIn("sim check", done.stderr)
                    last = self.last(done)
                    self.close(last["losses"], want, 1e-2)
                    self.assertEqual((last["world_size"], last["same_weights"]), (2, True))
        self.assertEqual(len(self.resume("sim", "--steps 6 --offload-optimizer none", 1)), 2)

    # Fails if an invalid combination is accepted.
    def test_invalid_options(self):
        for options, text in (("--zero-stage 3", "zero-stage"), ("--zero-stage 0 --offload-optimizer cpu", "requires ZeRO stage 1 or 2"),
                              ("--offload-optimizer disk", "disk"), ("--offload-path /tmp", "has no effect")):
            done = self.tune("out", f"--data {self.data} --steps 1 {options}", **CPU)
            self.assertEqual((done.returncode, done.stdout), (2, ""), options + done.stderr)
            self.assertIn(text, done.stderr, options)


if __name__ == "__main__":
    unittest.main()
