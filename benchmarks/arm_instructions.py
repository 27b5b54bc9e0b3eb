"""Counts the instructions of matrix products on aarch64, next to llama.cpp's.

usage: arm_instructions.py [--sets SET,...] [--llama FOLDER] [--build FOLDER] [--sve]

Cross-compiles the decoder's kernels and llama.cpp's CPU library (ggml) with the same target flags, runs products of the same shapes under qemu-user
with a plugin that counts instructions, and prints a table in Markdown. Each program runs with 1 and with 3 repetitions, so that the difference leaves
out everything but the products. The programs run with one thread. llama.cpp's library is built once; delete the build folder to build it again.

Emulation has no meaningful clock: the figures are numbers of instructions, not times.

Needs aarch64-linux-gnu-g++, qemu-aarch64 with plugins (Debian: qemu-user), cmake, ninja, and for llama.cpp's sources pip and a network.
"""
import argparse
import functools
import json
import pathlib
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
COMPILER = "aarch64-linux-gnu-g++"
SYSROOT = "/usr/aarch64-linux-gnu"
PACKAGE = "llama-cpp-python==0.3.36"  # contains llama.cpp's sources
# Target flags of llama.cpp's library, and the emulated CPU. Ours selects the set at run time.
SETS = {
    "neon": ("armv8-a", "max"),
    "neon_dotprod": ("armv8.2-a+dotprod", "max"),
    "neon_i8mm": ("armv8.2-a+dotprod+i8mm", "max"),
    "neon_bf16": ("armv8.2-a+dotprod+i8mm+bf16", "max"),
}
SHAPES = ((2048, 2048), (5632, 2048))  # outputs, inputs
ROWS = (1, 8, 64)
# Format, and inputs per scale of our matrix. llama.cpp has a scale per 32 inputs.
FORMATS = (("bf16", 0), ("int8", 32), ("int8", 128), ("int4", 32), ("int4", 128))
TARGET = 1.1
MAX_FEW_ROWS = 8  # more rows are multiplied by panels if the set has bfloat16 products


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"arm_instructions: {command[0]} failed with exit code {done.returncode}: {(done.stderr or done.stdout)[-2000:]}")
    return done


def build_plugin(build):
    run("cc", "-O2", "-shared", "-fPIC", "-o", build / "count.so", HERE / "arm/count_plugin.c")
    return build / "count.so"


def build_ours(build):
    sources = [HERE / "arm/products.cpp", *(ROOT / f"src/kernels/decoder/{name}.cpp" for name in ("products", "panels", "integers"))]
    # The flags of the op decoder_inference.
    run(COMPILER, "-O3", "-std=c++20", f"-I{ROOT / 'src'}", *sources, "-o", build / "products")
    return build / "products"


def llama_sources(build):
    found = sorted(build.glob("llama_cpp_python-*/vendor/llama.cpp"))
    if not found:
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python", PACKAGE, cwd=build)
        for archive in build.glob("llama_cpp_python-*.tar.gz"):
            with tarfile.open(archive) as files:
                files.extractall(build, filter="data")
        found = sorted(build.glob("llama_cpp_python-*/vendor/llama.cpp"))
    return found[0]


def build_ggml(build, sources, architecture):
    folder, program = build / f"ggml-{architecture}", build / f"ggml_products-{architecture}"
    if program.exists():
        return program
    toolchain = build / "toolchain.cmake"
    toolchain.write_text("set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR aarch64)\n"
                         f"set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)\nset(CMAKE_CXX_COMPILER {COMPILER})\n")
    run("cmake", "-S", sources, "-B", folder, "-G", "Ninja", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}", "-DCMAKE_BUILD_TYPE=Release",
        "-DGGML_NATIVE=OFF", f"-DGGML_CPU_ARM_ARCH={architecture}", "-DGGML_OPENMP=OFF", "-DGGML_LLAMAFILE=ON", "-DBUILD_SHARED_LIBS=OFF",
        "-DLLAMA_BUILD_COMMON=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_TOOLS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF")
    run("ninja", "-C", folder, "ggml-base", "ggml-cpu")
    libraries = [next(folder.rglob(f"libggml-{name}.a")) for name in ("cpu", "base")]
    run(COMPILER, "-O2", "-std=c++20", f"-I{sources / 'ggml/include'}", HERE / "arm/ggml_products.cpp", *libraries, "-lpthread", "-lm", "-o", program)
    return program


@functools.cache
def counted(plugin, cpu, program, *arguments, tail=()):
    """Return the instructions of a repetition, or None if the program does not support the product (exit code 3)."""
    results = []
    for repeats in (1, 3):
        done = subprocess.run(["qemu-aarch64", "-cpu", cpu, "-L", SYSROOT, "-plugin", plugin, str(program),
                               *map(str, arguments), str(repeats), *tail], capture_output=True, text=True)
        if done.returncode == 3:
            return None
        if done.returncode:
            sys.exit(f"arm_instructions: {program} {arguments} failed with exit code {done.returncode}: {done.stderr[-500:]}")
        results.append(json.loads(done.stderr.splitlines()[-1])["instructions"])
    return (results[1] - results[0]) / 2


def count_sve(build, plugin, ours):
    """Print the instructions of a product of a row with an int8 matrix with SVE, for several vector lengths, next to those of our kernels."""
    outputs, inputs = SHAPES[0]
    program = build / "sve_products"
    run(COMPILER, "-O3", "-std=c++20", "-march=armv8.2-a+sve+i8mm", HERE / "arm/sve_products.cpp", "-o", program)
    print("\n| instructions | vector bits | SVE | NEON | ratio |\n| --- | --- | --- | --- | --- |")
    for kind, name in (("dot", "neon_dotprod"), ("matrix", "neon_i8mm")):
        neon = counted(plugin, "max", ours, name, "int8", 128, 1, outputs, inputs)
        for bits in (128, 256, 512):
            cpu = f"max,sve-max-vq={bits // 128}"
            sve = counted(plugin, cpu, program, kind, outputs, inputs)
            print(f"| {kind} products | {bits} | {sve / outputs / inputs:.3f} | {neon / outputs / inputs:.3f} | {sve / neon:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default="neon_dotprod,neon_bf16", help="instruction sets (default: %(default)s)")
    parser.add_argument("--llama", type=pathlib.Path, help="folder with llama.cpp's sources (default: download them)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/arm_instructions", help="build folder (default: %(default)s)")
    parser.add_argument("--rows", default=",".join(map(str, ROWS)), help="numbers of rows (default: %(default)s)")
    parser.add_argument("--formats", default="bf16,int8,int4", help="formats of the matrix (default: %(default)s)")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="number of shapes to count (default: %(default)s)")
    parser.add_argument("--sve", action="store_true", help="count only a product with SVE, for vectors of 128, 256 and 512 bits")
    options = parser.parse_args()
    options.build.mkdir(parents=True, exist_ok=True)
    plugin, ours = build_plugin(options.build), build_ours(options.build)
    if options.sve:
        return count_sve(options.build, plugin, ours)
    sources = options.llama or llama_sources(options.build)
    print("| set | format | inputs per scale | shape | rows | ours | llama.cpp | ratio |")
    print("| --- " * 8 + "|")
    missed = 0
    for name in options.sets.split(","):
        architecture, cpu = SETS[name]
        theirs = build_ggml(options.build, sources, architecture)
        for format_, group in (each for each in FORMATS if each[0] in options.formats.split(",")):
            for outputs, inputs in SHAPES[:options.shapes]:
                for rows in map(int, options.rows.split(",")):
                    tail = ("panels",) if rows > MAX_FEW_ROWS and name == "neon_bf16" else ()
                    mine = counted(plugin, cpu, ours, name, format_, group, rows, outputs, inputs, tail=tail)
                    both = [counted(plugin, cpu, theirs, kind, format_, rows, outputs, inputs) for kind in ("plain", "repack")]
                    best = min(each for each in both if each)
                    products = rows * outputs * inputs
                    ratio = mine / best
                    missed += ratio > TARGET
                    cells = [name, format_, group or "", f"{outputs} x {inputs}", rows, f"{mine / products:.3f}", f"{best / products:.3f}", f"{ratio:.2f}"]
                    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    print(f"\nInstructions per multiplication of a weight by an input. Ratios above {TARGET}: {missed}.")


if __name__ == "__main__":
    main()
