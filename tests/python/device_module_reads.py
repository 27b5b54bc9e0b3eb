"""Finds the names that torch's Python code reads from the module of a device type, such as
torch.cuda, by parsing its sources.

`names()` maps each name to the files that read it. It follows the results of getattr(torch, <device
type>), torch.get_device_module() and similar calls through variables and attributes of the same
file, and recognizes the usual names of parameters that hold such a module.
"""

import ast
import collections
import os

import torch

# Excluded: vendors' own modules, tests, and tools that users do not run on a device.
_SKIPPED = ("_C/", "ao/", "cpu/", "cuda/", "include/", "mps/", "mtia/", "onnx/", "testing/", "utils/benchmark/", "xpu/")
_HOLDERS = {"device_module", "device_mod", "custom_device_mod", "_device_module", "device_handle", "_device_handle"}
_MAKERS = {"get_device_module", "_get_device_module", "_get_device_handle"}
# Files without these strings are skipped, because parsing all of torch takes half a minute.
_SIGNS = (*_HOLDERS, *_MAKERS, "getattr(torch,", "_get_custom_mod_func", "_get_device_attr")
# getattr(torch, X) returns the module of a device type if the expression X contains one of
# _DEVICE_WORDS and none of _OTHER_WORDS.
_DEVICE_WORDS = ("device", "backend", "gpu", "GPU", "acc", "privateuse")
_OTHER_WORDS = ("dtype", "func")


class _File(ast.NodeVisitor):

    def __init__(self, tree, found):
        self._found = found
        self._holders = set()
        self._strings = {}
        for node in ast.walk(tree):
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) and isinstance(target, ast.Name):
                        self._strings[target.id] = node.value.value
                    elif self._is_module(node.value):
                        self._holders.add(ast.unparse(target))

    def _is_module(self, node):
        if isinstance(node, ast.Call):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function == "cast" and len(node.args) == 2:
                return self._is_module(node.args[1])
            return function in _MAKERS or (function == "getattr" and ast.unparse(node.args[0]) == "torch" and _is_device_type(node.args[1]))
        if isinstance(node, ast.IfExp):
            return self._is_module(node.body) or self._is_module(node.orelse)
        if isinstance(node, ast.BoolOp):
            return any(self._is_module(each) for each in node.values)
        if isinstance(node, ast.Name):
            return node.id in _HOLDERS or node.id in self._holders
        return isinstance(node, ast.Attribute) and (node.attr in _HOLDERS or ast.unparse(node) in self._holders)

    def _add(self, node):
        text = node.value if isinstance(node, ast.Constant) else self._strings.get(ast.unparse(node))
        if text is not None:
            self._found.add(text)

    def visit_Attribute(self, node):
        if self._is_module(node.value) and node.attr not in _HOLDERS:
            self._found.add(node.attr)
        self.generic_visit(node)

    def visit_Call(self, node):
        function = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if function in ("getattr", "hasattr") and len(node.args) > 1 and self._is_module(node.args[0]):
            self._add(node.args[1])
        elif function == "_get_custom_mod_func":
            self._add(node.args[0])
        elif function == "_get_device_attr" and isinstance(node.args[0], ast.Lambda):
            holder = node.args[0].args.args[0].arg
            self._found |= {each.attr for each in ast.walk(node.args[0])
                            if isinstance(each, ast.Attribute) and getattr(each.value, "id", None) == holder}
        self.generic_visit(node)


def _is_device_type(node):
    text = ast.unparse(node)
    return not isinstance(node, ast.Constant) and any(word in text for word in _DEVICE_WORDS) and not any(word in text for word in _OTHER_WORDS)


def names():
    root = os.path.dirname(torch.__file__)
    readers = collections.defaultdict(set)
    for folder, _, files in os.walk(root):
        for file in files:
            path = os.path.join(folder, file)
            name = os.path.relpath(path, root)
            if not file.endswith(".py") or name.startswith(_SKIPPED):
                continue
            with open(path, encoding="utf-8") as stream:
                text = stream.read()
            if not any(word in text for word in _SIGNS):
                continue
            tree = ast.parse(text)
            found = set()
            _File(tree, found).visit(tree)
            for each in found:
                readers[each].add(name)
    return readers


if __name__ == "__main__":
    for name, files in sorted(names().items()):
        print(name, *sorted(files))
