"""The Python package has no import cycles, including imports inside functions."""
import ast
import pathlib
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "bindings/python/anyaccel"


def modules_of(package):
    """Return {module name: file} of a package folder."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def import_nodes(tree):
    """Yield the import statements of a module, except those under TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for child in node.orelse:
                yield from import_nodes(ast.Module([child], []))
        else:
            yield from import_nodes(node)


def imports_of(name, path, modules):
    """Return the modules of the package that a module imports.

    `from . import x` imports the submodule x if it exists. Otherwise it imports the package itself,
    unless x is a compiled module, which cannot be part of a cycle.
    """
    found = set()
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in import_nodes(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            continue
        base = node.module or ""
        if node.level:
            parts = package.split(".")
            base = ".".join(parts[:len(parts) - node.level + 1] + ([node.module] if node.module else []))
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            found.add(inner if inner in modules or alias.name in ("_native", "_build_info", "_comm") else base)
    return {module for module in found if module in modules and module != name}


def cycle_in(package):
    """Return the modules of an import cycle, or an empty list."""
    modules = modules_of(package)
    graph = {name: imports_of(name, path, modules) for name, path in modules.items()}
    done, stack = set(), []

    def visit(name):
        if name in stack:
            return stack[stack.index(name):] + [name]
        if name in done:
            return []
        stack.append(name)
        for other in sorted(graph[name]):
            if found := visit(other):
                return found
        stack.pop()
        done.add(name)
        return []

    for name in sorted(graph):
        if found := visit(name):
            return found
    return []


class PythonImports(unittest.TestCase):

    # Fails if modules of the package import each other, directly or indirectly. The result of an
    # import would then depend on the order of imports.
    def test_no_cycle(self):
        self.assertGreater(len(modules_of(PACKAGE)), 50)
        self.assertEqual(cycle_in(PACKAGE), [])

    # Fails if the search misses a cycle.
    def test_finds_cycles(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, "package")
            package.mkdir()
            for name, text in {"__init__": "from .a import x\n", "a": "def f():\n    from . import b\n", "b": "from .c import y\n",
                               "c": "import package.a\n"}.items():
                (package / f"{name}.py").write_text(text)
            self.assertEqual(cycle_in(package), ["package.a", "package.b", "package.c", "package.a"])


if __name__ == "__main__":
    sys.exit(unittest.main())
