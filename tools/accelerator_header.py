"""Parses the methods of class Accelerator, for tools/methods and tools/stubs."""
import re


class Method:
    """A public method of class Accelerator.

    `what` is its comment without the line that names the equivalents in torch.cuda and DeepSpeed,
    and `declaration` is its code on one line.
    """

    def __init__(self, group, name, comment, line, declaration):
        self.group, self.name, self.line, self.declaration = group, name, line, declaration
        text = " ".join(comment)
        match = re.search(r"torch\.cuda: (.*?)\. DeepSpeed: (.*?)\.(?:\s|$)", text)
        self.torch, self.deepspeed = match.groups() if match else (None, None)
        self.what = (text[: match.start()] if match else text).strip()
        # DeepSpeed's member names, without the remarks in parentheses.
        self.members = re.findall(r"[A-Za-z_][A-Za-z0-9_]*", re.sub(r"\(.*?\)", "", self.deepspeed or ""))


def read_header(text):
    """Return the public methods of class Accelerator, in order."""
    body = text[re.search(r"^class ANYACCEL_API Accelerator \{", text, re.M).start():]
    base = text.count("\n", 0, len(text) - len(body))
    methods, comment, group, number = [], [], "", 0
    lines = body.splitlines()
    while number < len(lines):
        line = lines[number].strip()
        if line.startswith("private:"):
            break
        if line.startswith("///"):
            words = line[3:].strip()
            if words.startswith("@name"):
                group, comment = words[5:].strip(), []
            elif words in ("@{", "@}"):
                comment = []
                group = "" if words == "@}" else group
            else:
                comment.append(words)
        elif not line:
            comment = []
        else:
            start = number
            while "(" in line and not re.search(r"[;{}]\s*(//.*)?$", line):
                number += 1
                line += " " + lines[number].strip()
            name = re.search(r"([A-Za-z_]\w*)\(", re.sub(r"^\[\[\w+\]\]\s*", "", line))
            if group and name and not line.startswith(("Accelerator", "explicit", "~")):
                methods.append(Method(group, name.group(1), comment, base + start + 1, line))
            # A comment belongs to one method only, even if others follow without an empty line.
            comment = []
        number += 1
    return methods
