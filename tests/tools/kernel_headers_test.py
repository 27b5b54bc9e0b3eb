"""Each header of src/kernels compiles on its own, so that editors can open it and the order of
includes does not matter.
"""
import concurrent.futures
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
GUARD = re.compile(r"^#if defined\((\w+)\) == defined\(ANYACCEL_ISA_TOGGLE\)$", re.M)
INTRINSICS = """#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
"""


def find_compiler():
    """Return the path of the C++ compiler that CXX or the build's cache names, or of c++, or None
    if none of them exists.
    """
    names = [os.environ.get("CXX")]
    cache = pathlib.Path(os.environ.get("ANYACCEL_BUILD_DIR", ""), "CMakeCache.txt")
    if cache.is_file():
        names += re.findall(r"^CMAKE_CXX_COMPILER:\w+=(.+)$", cache.read_text(), re.M)
    return next((path for name in [*names, "c++"] if name and (path := shutil.which(name))), None)


class Tree:
    """The headers below root/src/kernels, and how to compile them."""

    def __init__(self, root, scratch):
        self.source = root / "src"
        self.scratch = scratch
        self.compiler = find_compiler()
        self.headers = sorted(path.relative_to(self.source).as_posix() for path in (self.source / "kernels").rglob("*.h"))
        self.text = {name: (self.source / name).read_text() for name in self.headers}

    def compile(self, *options, text=None):
        """Return the compiler's messages, or an empty string if there is no error."""
        done = subprocess.run([self.compiler, "-std=c++20", "-w", "-I", self.source, *options], input=text, capture_output=True, text=True)
        return done.stderr if done.returncode else ""

    def closure(self, name, seen=None):
        """Return the header and all headers that it includes."""
        seen = set() if seen is None else seen
        if name not in seen:
            seen.add(name)
            for _, target in INCLUDE.findall(self.text.get(name, "")):
                self.closure(target, seen)
        return seen

    def jobs(self):
        """Yield (header, options) of each compilation."""
        wide = {"x86_64": "avx512", "aarch64": "neon"}.get(platform.machine())
        for name in self.headers:
            included = self.closure(name)
            if any(re.match(r"cuda|cooperative_groups|mma\.h", target) for target in included):
                continue
            options = ["-include", self.scratch / "intrinsics.h"] if "kernels/simd/target.h" in included else []
            yield name, options
            # Also compile the branches of #if ANYACCEL_WIDTH for wide vectors.
            if GUARD.search(self.text[name]) and wide:
                yield name, [*options, f"-DANYACCEL_ISA={wide}"]

    def errors(self):
        """Return the first error of each header that does not compile on its own."""
        # The headers of intrinsics are precompiled, because parsing them takes most of a header's
        # compile time.
        (self.scratch / "intrinsics.h").write_text(INTRINSICS)
        self.compile("-x", "c++-header", self.scratch / "intrinsics.h", "-o", self.scratch / "intrinsics.h.gch")
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        with concurrent.futures.ThreadPoolExecutor(processors) as pool:
            jobs = list(self.jobs())
            results = pool.map(lambda job: self.compile(*job[1], "-fsyntax-only", "-x", "c++", "-", text=f'#include "{job[0]}"\n'), jobs)
            found = {}
            for (name, _), output in zip(jobs, results):
                if output:
                    found.setdefault(name, next((line for line in output.splitlines() if "error" in line), output))
            return found


class KernelHeaders(unittest.TestCase):
    def tree(self, root):
        scratch = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, scratch)
        return Tree(root, scratch)

    # Fails if a header depends on headers that it does not include itself.
    def test_headers_compile_alone(self):
        tree = self.tree(ROOT)
        self.assertGreater(len(list(tree.jobs())), 50)
        if errors := tree.errors():
            self.fail("headers that do not compile alone:\n" + "\n".join(f"{name}: {error}" for name, error in errors.items()))

    # Fails if the check does not detect a header that cannot be compiled alone.
    def test_incomplete_header_is_reported(self):
        root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, root)
        files = {"alone.h": "#pragma once\nstruct Vec {};\n", "whole.h": '#pragma once\n#include "kernels/alone.h"\ninline Vec twice(Vec a);\n',
                 "fragment.h": "inline Vec twice(Vec a);\n", "device.h": '#include <cuda_bf16.h>\n'}
        (root / "src/kernels").mkdir(parents=True)
        for name, text in files.items():
            (root / "src/kernels" / name).write_text(text)
        errors = self.tree(root).errors()
        self.assertEqual(list(errors), ["kernels/fragment.h"], errors)
        self.assertIn("Vec", errors["kernels/fragment.h"])

    # Fails if two headers have the same include guard, so that one of them would be skipped.
    def test_guards_are_unique(self):
        for name, text in self.tree(ROOT).text.items():
            stem = name.removeprefix("kernels/").removesuffix(".h").removesuffix("_isa")
            expected = "ANYACCEL_" + stem.replace("/", "_").upper() + "_ISA_H"
            for guard in GUARD.findall(text):
                self.assertEqual(guard, expected, name)
                self.assertEqual(text.count(guard), 4, name)
            if name.endswith("_isa.h") and name not in ("kernels/simd/each_isa.h", "kernels/simd/next_isa.h"):
                self.assertTrue(GUARD.search(text) or "#pragma once" in text, f"{name} has no include guard; see kernels/simd/each_isa.h")


if __name__ == "__main__":
    if find_compiler() is None:
        print("SKIP: no C++ compiler")
        sys.exit(77)
    unittest.main()
