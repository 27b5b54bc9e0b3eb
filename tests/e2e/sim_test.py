"""Tests of the simulated accelerator as users run it: the same results as on the CPU, even when it
stands in for vendors' devices.
"""
import json
import os
import re
import sys
import unittest

from shell import libtorch_accelerator, shell
from small_model import SMALL, SmallModelTest

# Backends whose device types are defined by torch itself.
TORCH_TYPES = ("cuda", "hpu", "klxpu", "mps", "xpu")
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
# Selects torch's ops on the CPU, as on accelerators.
TORCH_OPS = {"ANYACCEL_TRAINING": "plain"}


class Sim(SmallModelTest):
    def train(self, accelerator, options="", small=SMALL, **variables):
        out = os.path.join(self.folder, accelerator)
        done = shell(f"anyaccel train --data {self.data} --out {out} {small} --json --steps 20 --seed 1 {options}",
                     DS_ACCELERATOR=accelerator, **ONE_THREAD, **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    # Fails if the losses on the simulator are not bitwise equal to those on the CPU with torch's
    # ops, or differ from those of the op decoder_training by more than rounding.
    def test_losses_match_cpu(self):
        for options in ("", "--dropout 0.1", "--dtype bf16", "--dtype fp16", "--graph"):
            with self.subTest(options):
                simulated = self.train("sim", options)
                self.assertEqual(simulated["losses"], self.train("cpu", options, **TORCH_OPS)["losses"])
                tolerance = 1e-2 if "16" in options else 1e-4
                for fused, plain in zip(self.train("cpu", options)["losses"], simulated["losses"], strict=True):
                    self.assertAlmostEqual(fused, plain, delta=tolerance)
        self.assertTrue(simulated["accelerator"].startswith("sim"))

    # Fails if generation on the simulator gives a different text than on the CPU.
    def test_text_matches_cpu(self):
        self.train("cpu")
        texts = [shell(f"anyaccel generate --model {self.folder}/cpu --prompt line --max-new-tokens 60 --temperature 0",
                       DS_ACCELERATOR=name, **ONE_THREAD) for name in ("cpu", "sim")]
        self.assertEqual([text.returncode for text in texts], [0, 0], texts[1].stderr)
        self.assertEqual(texts[0].stdout, texts[1].stdout)

    # Fails if decoding does not use graphs, or if it generates different tokens than without
    # graphs. The texts are longer than the 256 positions of the first graph.
    def test_graph_decoding_matches_cpu(self):
        self.train("cpu", small=SMALL.replace("--context 32", "--context 320 --vocab-size 257"))
        path = os.path.join(self.folder, "prompts")
        with open(path, "w", encoding="utf-8") as file:
            file.write("line 7 of a\nline 8 of a\n")
        runs = {}
        for name, way in (("cpu", "auto"), ("cpu", "graph"), ("sim", "auto"), ("sim", "plain")):
            done = shell(f"anyaccel generate --model {self.folder}/cpu --prompts {path} --batch-size 1 -n 290 --greedy --json --log-level debug",
                         DS_ACCELERATOR=name, ANYACCEL_DECODE=way, SIM_CHECK="report", **ONE_THREAD)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("sim check", done.stderr)
            ids = [json.loads(line)["ids"] for line in done.stdout.splitlines()]
            captures = [int(found) for found in re.findall("captured the decode step for up to ([0-9]+) positions", done.stderr)]
            runs[name, way] = ids, captures
        self.assertEqual([len(ids) for ids in runs["cpu", "auto"][0]], [290, 290])
        for key, (ids, captures) in runs.items():
            self.assertEqual(ids, runs["cpu", "auto"][0], key)
            self.assertEqual(captures, [256, 301] if key in {("cpu", "graph"), ("sim", "auto")} else [], key)

    # Fails if the simulator is selected without being requested. Also fails if the backend for
    # which it stands in is not selected.
    def test_chosen_only_by_name(self):
        self.assertNotEqual(json.loads(shell("anyaccel report --json").stdout)["accelerator"], "sim")
        report = json.loads(shell("anyaccel report --json", SIM_STANDS_IN_FOR="npu").stdout)
        self.assertEqual(report["accelerator"], "npu")

    # Fails if a vendor's backend does not train on the simulator that stands in for its device.
    def test_stands_in_for_a_vendor(self):
        expected = self.train("cpu", **TORCH_OPS)["losses"]
        for name in ("mlu", "npu", "sdaa", "supa", *(() if libtorch_accelerator() else TORCH_TYPES)):
            with self.subTest(name):
                self.assertEqual(self.train(name, SIM_STANDS_IN_FOR=name)["losses"], expected)

    # Fails if the simulator does not reject a device type that this LibTorch uses itself.
    def test_device_types_of_libtorch(self):
        for name in TORCH_TYPES if libtorch_accelerator() else ():
            with self.subTest(name):
                done = shell(f"anyaccel train --data {self.data} --out {self.folder}/x {SMALL} --steps 1", DS_ACCELERATOR=name,
                             SIM_STANDS_IN_FOR=name)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("[sim] the LibTorch loaded in this process", done.stderr)
                self.assertIn("CPU-only LibTorch", done.stderr)

    # Fails if the error about an invalid SIM_ variable does not name the variable and valid values.
    def test_invalid_values(self):
        for name, value, expected in (("SIM_DEVICES", "many", "1 to 16"), ("SIM_MEMORY", "8 pounds", "512MiB"),
                                      ("SIM_FAULTS", "alloc", "alloc@3")):
            done = shell(f"anyaccel train --data {self.data} --out {self.folder}/x", DS_ACCELERATOR="sim", **{name: value})
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(name, done.stderr)
            self.assertIn(expected, done.stderr)

    # Fails if running out of device memory, or an injected fault, does not give a clear error.
    def test_failures_are_reported(self):
        for variables, expected in (({"SIM_MEMORY": "2MiB"}, "out of memory"), ({"SIM_FAULTS": "kernel@200"}, "failed on device"),
                                    ({"SIM_FAULTS": "lost@200"}, "was lost")):
            with self.subTest(variables):
                done = shell(f"anyaccel train --data {self.data} --out {self.folder}/x {SMALL} --steps 5 --batch-size 16",
                             DS_ACCELERATOR="sim", **variables)
                self.assertGreater(done.returncode, 0, done.stderr)
                self.assertIn(expected, done.stderr)


if __name__ == "__main__":
    if "sim" not in [backend["name"] for backend in json.loads(shell("anyaccel report --json").stdout)["backends"]]:
        print("SKIP: this build has no simulated accelerator (-DANYACCEL_SIM=ON)")
        sys.exit(77)
    unittest.main()
