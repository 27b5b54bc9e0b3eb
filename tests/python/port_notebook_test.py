"""`anyaccel port` on Jupyter notebooks."""

import ast
import difflib
import json
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "bindings" / "python"))
pytest.importorskip("libcst", reason="libcst is not installed")
pytest.importorskip("anyaccel_port.python", reason="the finder for Python is not part of this build")

from anyaccel_port import notebook
from anyaccel_port.findings import SourceError


def document(*sources, indent=1, markdown=("Uses torch.cuda.\n", ), **options):
    """A notebook's text: a markdown cell and the given code cells."""
    cells = [{"cell_type": "markdown", "metadata": {"source": ["x.cuda()"]}, "source": list(markdown)}]
    cells += [{
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [{
            "text": ["torch.cuda.synchronize()"]
        }],
        "source": s
    } for s in sources]
    return json.dumps(
        {
            "cells": cells,
            "metadata": {
                "accelerator": "GPU"
            },
            "nbformat": 4,
            "nbformat_minor": 5
        }, indent=indent, **options) + "\n"


def lines(source):
    return source.splitlines(keepends=True)


def fixed(text):
    equivalent = lambda t: [f for f in notebook.find(t, "a.ipynb", "anyaccel") if f.severity == "equivalent" and f.edits]
    result = notebook.fix(text, equivalent(text), "anyaccel")
    assert equivalent(result) == []
    assert json.loads(result)["metadata"] == json.loads(text)["metadata"]
    return result


def sources(text):
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"]][1:]


# Fails if a name imported in one cell is unknown in the next one, positions are wrong, or texts of
# other parts of the file match.
def test_positions():
    text = document(lines("import torch\nx = torch.ones(2)\n"),
                    lines('# größer "a"\t\ny = x.cuda()\n!nvidia-smi\n'),
                    ensure_ascii=True)
    findings = notebook.find(text, "a.ipynb", "anyaccel")
    assert [(f.rule, f.cell, f.line) for f in findings] == [("tensor-cuda", 3, 2), ("nvidia-tool", 3, 3)]
    for f in findings:
        assert text[f.start:f.end] == f.text


# Fails if anything but the changed source lines differs.
@pytest.mark.parametrize("options", [{
    "indent": 1
}, {
    "indent": None
}, {
    "indent": 4,
    "ensure_ascii": False
}, {
    "indent": 1,
    "separators": (",", " : ")
}])
def test_changes_lines_only(options):
    text = document(lines("import torch\nprint('größer')\n"), lines("z = 1\nx = torch.ones(2).cuda()  # größer\n\nprint(x)"), [],
                    "y = x.cuda()\nprint(y)\n", **options)
    result = fixed(text)
    assert sources(result) == [
        "import torch\nfrom anyaccel import get_accelerator\nprint('größer')\n",
        "z = 1\nx = torch.ones(2).to(get_accelerator().device_name())  # größer\n\nprint(x)", "",
        "y = x.to(get_accelerator().device_name())\nprint(y)\n"
    ]
    if options["indent"]:
        changed = [line for line in difflib.ndiff(text.splitlines(), result.splitlines()) if line[0] in "+-"]
        assert len(changed) == 5 and sum(line[0] == "+" for line in changed) == 3
        result_lines = result.splitlines()
        assert [line for line in text.splitlines() if line not in result_lines] == [line[2:] for line in changed if line[0] == "-"]


# Fails if a source whose strings are not lines is broken by a fix.
def test_strings_that_are_not_lines():
    text = document(["import torch\nx = torch.ones(2).cu", "da()\nprint(", "x)\n"])
    assert sources(fixed(text)) == [
        "import torch\nfrom anyaccel import get_accelerator\nx = torch.ones(2).to(get_accelerator().device_name())\nprint(x)\n"
    ]


# Fails if IPython's commands count as broken Python, are changed, or hide the code around them.
@pytest.mark.parametrize("before, after", [
    ("%matplotlib inline\nx.cuda()", "%matplotlib inline\nx.to(D)"),
    ("!pip install torch \\\n  numpy\nx.cuda()", "!pip install torch \\\n  numpy\nx.to(D)"),
    ("if x:\n    !ls\n    x.cuda()", "if x:\n    !ls\n    x.to(D)"),
    ("files = !ls -l\nn = %timeit -o f()\nx.cuda()", "files = !ls -l\nn = %timeit -o f()\nx.to(D)"),
    ("%time x.cuda()", "%time x.to(D)"),
    ("%%time\nx.cuda()\n", "%%time\nx.to(D)\n"),
    ("%%html\n<b>x.cuda() isn't</b>\n", "%%html\n<b>x.cuda() isn't</b>\n"),
    ("%%writefile a.txt\nx.cuda() isn't\n", "%%writefile a.txt\nx.cuda() isn't\n"),
    ("x.cuda?\nx.cuda()\n?x\n", "x.cuda?\nx.to(D)\n?x\n"),
    ("cd folder/\nls -l\nx.cuda()\n", "cd folder/\nls -l\nx.to(D)\n"),
    ("y = (1\n  % 2)\nz = 'a' \\\n  % x.cuda()\n", "y = (1\n  % 2)\nz = 'a' \\\n  % x.to(D)\n"),
    ("ls = [x.cuda()]\nls[0] -1\n", "ls = [x.to(D)]\nls[0] -1\n"),
    ("!\nx.cuda()\n", "!\nx.to(D)\n"),
])
def test_commands(before, after):
    text = document(lines("import torch\nfrom anyaccel import get_accelerator\nx = torch.ones(2)\n"), lines(before))
    assert sources(fixed(text))[1] == after.replace("D", "get_accelerator().device_name()")


# Fails if shell commands of a notebook are not examined.
def test_shell():
    text = document(lines("%%bash\nCUDA_VISIBLE_DEVICES=0 python a.py\n"),
                    lines("!pip install torch==2.0+cu118\n%pip install flash-attn\n!echo nvidia-smi\n"))
    findings = notebook.find(text, "a.ipynb", "anyaccel")
    assert [(f.rule, f.cell, f.line) for f in findings] == [("visible-devices", 2, 2), ("package-cuda-build", 3, 1),
                                                            ("package-cuda-only", 3, 2)]
    assert notebook.fix(text, findings, "anyaccel") == text.replace("torch==2.0+cu118", "torch==2.0")


# Fails if a broken notebook is accepted, or the message does not name the cell.
def test_broken():
    with pytest.raises(SourceError, match="not a notebook"):
        notebook.find('{"cells": [', "a.ipynb", "anyaccel")
    with pytest.raises(SourceError, match="not a notebook"):
        notebook.find("[]", "a.ipynb", "anyaccel")
    for start, end, depth in (("[", "]", 100_000), ('{"a": ', "}", 100_000)):
        with pytest.raises(SourceError, match="nested too deeply"):
            notebook.find('{"cells": ' + start * depth + "1" + end * depth + "}", "a.ipynb", "anyaccel")
    with pytest.raises(SourceError, match="cell 3") as error:
        notebook.find(document(["import torch\n"], ["x = 1\n", "print 'cuda'\n"]), "a.ipynb", "anyaccel")
    assert error.value.line == 2
    assert notebook.find('{"cells": [], "nbformat": 4}', "a.ipynb", "anyaccel") == []
    assert notebook.find('{"nbformat": 4}', "a.ipynb", "anyaccel") == []


# Fails if a masked cell has another length than its source, because positions depend on it.
def test_masks_keep_places():
    source = "%time f(1)\n!ls \\\n -l\nx = !ls\n%matplotlib inline\nls -l\nx?\n"
    program = notebook._Program(document(lines(source)))
    masked = program.code[:len(source)]
    assert [len(line) for line in masked.split("\n")] == [len(line) for line in source.split("\n")]
    ast.parse(masked)
