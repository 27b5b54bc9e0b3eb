"""Finds the names that torch's Python code reads from device modules such as torch.cuda, and from
Dynamo's device interfaces, by parsing torch's sources.

    python tests/python/device_module_reads.py [FOLDER OF TORCH'S SOURCES]

`names()` maps each name to the files that read it. Within a file, it follows the results of
getattr(torch, <device type>), torch.get_device_module() and similar calls through variables,
attributes, parameters and return values. It also recognizes the usual names of variables that hold
such a module.
"""

import ast
import collections
import dataclasses
import os
import sys

import torch

# Excluded: vendors' own modules, tests, and tools that users do not run on a device.
_SKIPPED = ("_C/", "ao/", "cpu/", "cuda/", "include/", "mps/", "mtia/", "onnx/", "testing/", "utils/benchmark/", "xpu/")
# getattr(torch, X) is assumed to return a device module if the expression X contains one of
# _DEVICE_WORDS and none of _OTHER_WORDS.
_DEVICE_WORDS = ("device", "backend", "gpu", "GPU", "acc", "privateuse")
_OTHER_WORDS = ("dtype", "func")


@dataclasses.dataclass(frozen=True)
class Source:
    """Functions that return the objects whose attributes are collected, and the usual names of variables
    that hold such an object."""

    makers: frozenset
    holders: frozenset
    # More strings that mark a file as relevant. Other files are skipped, because parsing all of
    # torch takes half a minute.
    signs: tuple = ()
    attributes_of_torch: bool = False


MODULE = Source(makers=frozenset({"get_device_module", "_get_device_module", "_get_device_handle"}),
                holders=frozenset({"device_module", "device_mod", "custom_device_mod", "_device_module", "device_handle",
                                   "_device_handle"}),
                signs=("getattr(torch,", "_get_custom_mod_func", "_get_device_attr"), attributes_of_torch=True)
INTERFACE = Source(makers=frozenset({"get_interface_for_device"}), holders=frozenset({"device_interface", "gpu_interface"}))


class _File(ast.NodeVisitor):

    def __init__(self, tree, source, found):
        self._source = source
        self._found = found
        self._makers = set(source.makers)
        self._holders = set()
        self._strings = {}
        functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        known = None
        while known != (known := (len(self._makers), len(self._holders))):
            self._follow(tree, functions)

    def _follow(self, tree, functions):
        for node in ast.walk(tree):
            if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) and isinstance(target, ast.Name):
                        self._strings[target.id] = node.value.value
                    elif self._is_wanted(node.value):
                        self._holders.add(ast.unparse(target))
            elif isinstance(node, ast.Call) and getattr(node.func, "id", None) in functions:
                parameters = functions[node.func.id].args
                named = dict(zip([each.arg for each in parameters.posonlyargs + parameters.args], node.args))
                named.update((each.arg, each.value) for each in node.keywords)
                self._holders |= {name for name, value in named.items() if self._is_wanted(value)}
        for name, function in functions.items():
            results = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
            if any(self._is_wanted(result) for result in results):
                self._makers.add(name)

    def _is_wanted(self, node):
        if isinstance(node, ast.Call):
            function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if function == "cast" and len(node.args) == 2:
                return self._is_wanted(node.args[1])
            return function in self._makers or (self._source.attributes_of_torch and function == "getattr" and
                                                ast.unparse(node.args[0]) == "torch" and _is_device_type(node.args[1]))
        if isinstance(node, ast.IfExp):
            return self._is_wanted(node.body) or self._is_wanted(node.orelse)
        if isinstance(node, ast.BoolOp):
            return any(self._is_wanted(each) for each in node.values)
        if isinstance(node, ast.Name):
            return node.id in self._source.holders or node.id in self._holders
        return isinstance(node, ast.Attribute) and (node.attr in self._source.holders or ast.unparse(node) in self._holders)

    def _add(self, node):
        text = node.value if isinstance(node, ast.Constant) else self._strings.get(ast.unparse(node))
        if text is not None:
            self._found.add(text)

    def visit_Attribute(self, node):
        if self._is_wanted(node.value) and node.attr not in self._source.holders:
            self._found.add(node.attr)
        self.generic_visit(node)

    def visit_Call(self, node):
        function = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if function in ("getattr", "hasattr") and len(node.args) > 1 and self._is_wanted(node.args[0]):
            self._add(node.args[1])
        elif function == "_get_custom_mod_func" and self._source.attributes_of_torch:
            self._add(node.args[0])
        elif function == "_get_device_attr" and isinstance(node.args[0], ast.Lambda):
            holder = node.args[0].args.args[0].arg
            self._found |= {each.attr for each in ast.walk(node.args[0])
                            if isinstance(each, ast.Attribute) and getattr(each.value, "id", None) == holder}
        self.generic_visit(node)


def _is_device_type(node):
    text = ast.unparse(node)
    return not isinstance(node, ast.Constant) and any(word in text for word in _DEVICE_WORDS) and not any(word in text for word in _OTHER_WORDS)


def names(source=MODULE, root=os.path.dirname(torch.__file__)):
    """Return {name: files that read it} for the torch sources in the folder `root`."""
    readers = collections.defaultdict(set)
    signs = (*source.makers, *source.holders, *source.signs)
    for folder, _, files in os.walk(root):
        for file in files:
            path = os.path.join(folder, file)
            name = os.path.relpath(path, root).replace(os.sep, "/")
            if not file.endswith(".py") or name.startswith(_SKIPPED):
                continue
            with open(path, encoding="utf-8") as stream:
                text = stream.read()
            if not any(word in text for word in signs):
                continue
            tree = ast.parse(text)
            found = set()
            _File(tree, source, found).visit(tree)
            for each in found:
                readers[each].add(name)
    return readers


if __name__ == "__main__":
    for kind, prefix in ((MODULE, ""), (INTERFACE, "interface.")):
        for name, files in sorted(names(kind, *sys.argv[1:]).items()):
            print(prefix + name, *sorted(files))
