"""Tests of the data that `anyaccel train --model` reads: tokens and labels as in transformers and
TRL, formats, and malformed lines.
"""
import json
import unittest

import chat_templates
import tokenizer_kinds
from fine_tune_case import CHATML, FineTuneCase, conversations, make_model, save_tokenizer, without_marks

# The assistant's text ends in various ways, and the marks begin at various places.
MARKED = {
    "chatml": CHATML,
    "space before the text": "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}[/I]{% generation %} {{ m.content }} {{ eos_token }}"
                             "{% endgeneration %}{% else %}[I] {{ m.content }}{% endif %}{% endfor %}",
    "no special tokens": "{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}{% generation %}{{ m.content }}.{% endgeneration %}"
                         "{% else %}{{ m.content }}{% endif %}\n\n{% endfor %}",
}


class FineTuneData(FineTuneCase):
    def config_only(self):
        """Write a config.json, which suffices to read data."""
        self.model_folder.mkdir()
        sizes = dict(vocab_size=4000, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, eos_token_id=2)
        self.write("model/config.json", [dict(sizes, model_type="llama")])

    def masks(self, tokenizer, turns):
        """Return the ids and labels of a conversation as transformers computes them."""
        out = tokenizer.apply_chat_template(turns, return_dict=True, return_assistant_tokens_mask=True)
        mask = out["assistant_masks"]
        return out["input_ids"], [i if m else -100 for i, m in zip(out["input_ids"], mask)]

    # Fails if the ids or the labels of a conversation differ from those of transformers, with
    # tokenizers that merge across the boundaries, add a space, or normalize the text.
    def test_masks_match_transformers(self):
        self.config_only()
        for kind in (tokenizer_kinds.llama3, tokenizer_kinds.byte_level, tokenizer_kinds.nfc_bytes, tokenizer_kinds.llama2):
            for name, template in MARKED.items():
                with self.subTest(kind=kind.__name__, template=name):
                    tokenizer = save_tokenizer(self.model_folder, kind, template)
                    turns = conversations(12) + [[{"role": "user", "content": "Größe e\u0301?\n"}, {"role": "assistant", "content": "Ja, große e\u0301 \u65e5\u672c."}]]
                    examples, _, bad = self.probe(self.write("chats.jsonl", [{"messages": one} for one in turns]))
                    self.assertEqual(bad, [])
                    self.assertEqual(len(examples), len(turns))
                    for example, one in zip(examples, turns):
                        ids, labels = self.masks(tokenizer, one)
                        self.assertEqual(example["ids"], ids)
                        self.assertEqual(example["labels"], labels, tokenizer.convert_ids_to_tokens(ids))

    # Fails if a template without marks gives different labels than the same template with marks.
    def test_templates_without_marks(self):
        self.config_only()
        data = self.chats()
        save_tokenizer(self.model_folder)
        marked = self.probe(data)[0]
        save_tokenizer(self.model_folder, template=without_marks(CHATML))
        self.assertEqual(self.probe(data)[0], marked)

    # Fails if the assistant's text is missing from the labels, or the user's is in them, for
    # templates like those of published models.
    def test_published_templates(self):
        self.config_only()
        turns = chat_templates.turns(("user", "question one"), ("assistant", "answer one"), ("user", "question two"), ("assistant", "answer two"))
        data = self.write("chats.jsonl", [{"messages": turns}])
        for name, template in chat_templates.TEMPLATES.items():
            # These repeat the users' text after the last answer, or count it as the assistant's.
            if name in ("mistral", "macros", "string methods"):
                continue
            with self.subTest(name):
                tokenizer = save_tokenizer(self.model_folder, template=template)
                examples, _, bad = self.probe(data)
                self.assertEqual(bad, [])
                learned = tokenizer.decode([i for i in examples[0]["labels"] if i != -100])
                for word in ("answer one", "answer two"):
                    self.assertIn(word, learned)
                self.assertNotIn("question", learned)

    # Fails if a text lacks the tokenizer's special tokens or the end-of-text token, or has one of
    # them twice.
    def test_texts(self):
        _, tokenizer = make_model(self.model_folder)
        texts = ["One line", "Two\nlines", "ends itself</s>", "", "ünï"]
        examples, _, _ = self.probe(self.write("texts.jsonl", [{"text": text} for text in texts]))
        for example, text in zip(examples, texts):
            want = tokenizer(text)["input_ids"]
            want += [] if want and want[-1] == tokenizer.eos_token_id else [tokenizer.eos_token_id]
            self.assertEqual(example["ids"], want)
            self.assertEqual(example["labels"], want)

    # Fails if a plain text is split into lines, if a folder's files are read in the wrong order, or
    # if the format of a file is detected wrongly.
    def test_formats(self):
        _, tokenizer = make_model(self.model_folder)
        (self.folder / "data/more").mkdir(parents=True)
        self.write("data/b.txt", ["A text\nwith two lines\n"])
        self.write("data/a.md", ["# Title\n"])
        self.write("data/more/c.txt", ['{"text": "by content"}\n'])
        self.write("data/d.json", ['{"text": "also by content"}\n'])
        self.write("data/.hidden", ["hidden"])
        examples, _, _ = self.probe(self.folder / "data")
        self.assertEqual([tokenizer.decode(one["ids"], skip_special_tokens=True) for one in examples],
                         ["# Title\n", "A text\nwith two lines\n", "also by content", "by content"])
        _, _, bad = self.probe(self.write("words.jsonl", ["no json\n"]))
        self.assertEqual(len(bad), 1)

    # Fails if a malformed line is accepted, or if its place or reason is not reported.
    def test_bad_lines(self):
        make_model(self.model_folder)
        good = {"messages": conversations(2)[1]}
        data = self.write("mixed.jsonl", [good, "{\n", {"prompt": "a"}, "\n", {"messages": [{"role": "user", "content": "alone"}]}, good,
                                          {"text": 5}])
        examples, _, bad = self.probe(data)
        self.assertEqual(len(examples), 2)
        for reason, (line, text) in zip(bad, [(2, "JSON"), (3, '"prompt"'), (5, "assistant"), (7, "not a string")], strict=True):
            self.assertIn(f"mixed.jsonl:{line}", reason)
            self.assertIn(text, reason)
        options = f"--data {data} --steps 1 --no-packing"
        done = self.tune("out", options)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("mixed.jsonl:2", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(self.result(self.tune("out", options + " --skip-bad-lines"))[-1]["bad_lines"], 4)

    # Fails if files that are not text are read as text, or if the error does not name the file.
    def test_unusable_files(self):
        make_model(self.model_folder)
        (self.folder / "a.gz").write_bytes(b"\x1f\x8b\x08\x00more")
        (self.folder / "b.parquet").write_bytes(b"PAR1more")
        (self.folder / "c.txt").write_bytes(b"a\0b")
        self.write("d.json", ["[\n", '{"text": "a"}\n', "]\n"])
        for name, text in (("a.gz", "compressed"), ("b.parquet", "Parquet"), ("c.txt", "binary"), ("d.json", "jq -c"), ("missing", "No such file")):
            done = self.tune("out", f"--data {self.folder / name} --steps 1")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(name, done.stderr)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()
