"""Tests that `anyaccel chat` and `generate` render chat templates like transformers'
apply_chat_template.
"""
import json
import os
import signal
import subprocess
import sys
import unittest

from shell import BIN, shell
from small_model import SMALL, SmallModelTest

try:
    import transformers
    from tokenizers import Tokenizer, models
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

import chat_templates

TOKENS = 1 << 16  # long enough that an answer never ends on its own
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds <a> & 'b'", "parameters": {"type": "object", "properties": {}}}}]


def variables():
    """Return every conversation with and without a generation prompt, and some with tools or other
    variables.
    """
    out = []
    for messages in chat_templates.conversations():
        out += [{"messages": messages, "add_generation_prompt": prompt} for prompt in (False, True)]
    out.append({"messages": messages, "tools": TOOLS, "add_generation_prompt": True})
    out.append({"messages": chat_templates.turns(("system", "x"), ("user", "y")), "tools": TOOLS})
    out.append({"messages": chat_templates.turns(("user", "y")), "enable_thinking": False, "add_generation_prompt": True})
    return out


class Render(SmallModelTest):
    def tokenizer(self, template):
        theirs = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>", eos_token="</s>")
        theirs.chat_template = template
        return theirs

    def theirs(self, tokenizer, values):
        values = dict(values)
        try:
            return tokenizer.apply_chat_template(values.pop("messages"), tokenize=False, **values)
        except Exception:  # errors from Jinja, and errors that the template raises
            return None

    def ours(self, lines):
        path = os.path.join(self.folder, "lines")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        done = shell(f"anyaccel chat --model {self.folder} --render {path}")
        return [json.loads(line) for line in done.stdout.split("\n")[:-1]], done

    def test_templates(self):
        # Fails if a template is rendered differently than by Jinja with transformers' settings.
        compared = 0
        for number, (name, template) in enumerate(chat_templates.TEMPLATES.items()):
            with self.subTest(template=name):
                tokenizer = self.tokenizer(template)
                # Store the templates alternately in chat_template.jinja and in
                # tokenizer_config.json.
                if os.path.exists(f"{self.folder}/chat_template.jinja"):
                    os.remove(f"{self.folder}/chat_template.jinja")
                tokenizer.save_pretrained(self.folder, save_jinja_files=number % 2 == 0)
                self.assertEqual(os.path.exists(f"{self.folder}/chat_template.jinja"), number % 2 == 0)
                want = [(values, self.theirs(tokenizer, values)) for values in variables()]
                taken = [(values, text) for values, text in want if text is not None]
                self.assertGreater(len(taken), 20)
                got, done = self.ours([values for values, _ in taken])
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(len(got), len(taken))
                for (values, text), one in zip(taken, got):
                    self.assertEqual(one, text, values)
                compared += len(taken)
                refused = [values for values, text in want if text is None]
                for values in refused[:2]:
                    _, done = self.ours([values])
                    self.assertNotEqual(done.returncode, 0, values)
                    self.assertIn("line ", done.stderr)
        print(f"{compared} texts compared")

    def test_named_templates(self):
        # Fails if the template "tool_use" is not used when tools are given, or is used without
        # tools.
        tokenizer = self.tokenizer({"default": "plain", "tool_use": "tools {{ tools|length }}"})
        for files in (True, False):
            tokenizer.save_pretrained(self.folder, save_jinja_files=files)
            got, _ = self.ours([{"messages": []}, {"messages": [], "tools": TOOLS}])
            self.assertEqual(got, ["plain", "tools 1"])

    def test_errors(self):
        # Fails if the error about an invalid template does not name the line.
        for template, message in ((None, "no chat template"), ("\n{% include 'x' %}", 'line 2: the tag "include"')):
            if template:
                with open(f"{self.folder}/chat_template.jinja", "w", encoding="utf-8") as file:
                    file.write(template)
            _, done = self.ours([{"messages": []}])
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)


class Chat(SmallModelTest):
    def setUp(self):
        super().setUp()
        self.model = os.path.join(self.folder, "model")
        done = shell(f"anyaccel train --data {self.data} --out {self.model} --steps 60 {SMALL}")
        self.assertEqual(done.returncode, 0, done.stderr)

    def template(self, text):
        with open(os.path.join(self.model, "chat_template.jinja"), "w", encoding="utf-8") as file:
            file.write(text)

    def generate(self, options):
        done = shell(f"anyaccel generate --model {self.model} --greedy -n 4 --json {options}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_generate(self):
        # Fails if --prompt is not rendered with the template, or if --raw or --prompt-ids is.
        self.assertEqual(self.generate("--prompt ab")["prompt_tokens"], 2)
        self.template("{{ messages[0].role }}:{{ messages[0].content }}\n{% if add_generation_prompt %}\n>{% endif %}")
        self.assertEqual(self.generate("--prompt ab")["prompt_tokens"], len("user:ab\n>"))
        self.assertEqual(self.generate("--prompt ab")["ids"], self.generate("--raw --prompt $'user:ab\\n>'")["ids"])
        self.assertEqual(self.generate("--raw --prompt ab")["prompt_tokens"], 2)
        self.assertEqual(self.generate("--prompt-ids '97 98'")["prompt_tokens"], 2)
        self.template("{% include 'x' %}")
        done = shell(f"anyaccel generate --model {self.model} --prompt ab")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--raw", done.stderr)

    def test_history(self):
        # Fails if an answer depends on anything but the system prompt and the turns since the last
        # /reset. Also fails if input after /exit is answered.
        self.template("{% for m in messages %}{{ m.role[0] }}{{ m.content|length }}{% endfor %}"
                      "{{ raise_exception('too many') if messages|length > 4 }}")
        chat = f"anyaccel chat --model {self.model} --greedy -n 4"
        first = self.generate("--raw --prompt u2")["text"]
        second = self.generate(f"--raw --prompt u2a{len(first)}u5")["text"]
        done = shell(f"printf 'ab\\n\\nabcde\\n/reset\\nab\\n/exit\\nab\\n' | {chat}")
        self.assertEqual((done.returncode, done.stdout), (0, f"{first}\n{second}\n{first}\n"), done.stderr)
        told = self.generate("--raw --prompt s1u2")["text"]
        self.assertEqual(shell(f"echo ab | {chat} --system x").stdout, f"{told}\n")
        done = shell(f"printf 'ab\\nab\\nab\\n/reset\\nab\\n' | {chat}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("too many", done.stderr)
        self.assertTrue(done.stdout.endswith(f"\n{first}\n"), done.stdout)

    def test_interrupt(self):
        # Fails if Ctrl-C does not stop the answer, or if it ends the conversation.
        self.template("{{ messages[-1].content }}{{ raise_exception('it went on') if messages|length > 1 }}")
        config = os.path.join(self.model, "config.json")
        with open(config, encoding="utf-8") as file:
            changed = dict(json.load(file), max_position_embeddings=TOKENS + 100, eos_token_id=None)
        with open(config, "w", encoding="utf-8") as file:
            json.dump(changed, file)
        environment = dict(os.environ, PATH=BIN + os.pathsep + os.environ["PATH"])
        with subprocess.Popen(["anyaccel", "chat", "--model", self.model, "--greedy", "-n", str(TOKENS)], env=environment,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as chat:
            try:
                chat.stdin.write(b"line\n")
                chat.stdin.flush()
                self.assertNotEqual(chat.stdout.read(1), b"")  # the answer has started
                chat.send_signal(signal.SIGINT)
                out, error = chat.communicate(b"and then\n/exit\n", timeout=300)
            finally:
                chat.kill()
        self.assertEqual(chat.returncode, 1, error)
        self.assertIn(b"it went on", error)
        self.assertLess(len(out), TOKENS)


if __name__ == "__main__":
    unittest.main()
