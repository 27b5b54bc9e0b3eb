"""The parts of a report, in the order in which they run. The first ones are useful even if the
later ones do not run.
"""

import os
import pathlib
import re
import shutil
import sys

from . import facts, readers
from .execute import Part, command_text

# Test files of tests/python that run on every accelerator.
TESTS = ("decoder", "decoder_cuda", "decoder_integers", "evoformer_attn", "fp_quantizer", "quantizer", "random_ltd", "sparse_attn",
         "spatial_inference", "transformer", "transformer_layer")
# Builders that a report covers without the source tree, which would list them.
BUILDERS = ("AsyncIOBuilder", "CCLCommBuilder", "CPUAdagradBuilder", "CPUAdamBuilder", "CPULionBuilder", "DecoderInferenceBuilder",
            "DecoderTrainingBuilder", "EvoformerAttnBuilder", "FPQuantizerBuilder", "FusedAdamBuilder", "FusedLambBuilder",
            "FusedLionBuilder", "InferenceBuilder", "InferenceCoreBuilder", "PinMemoryBuilder", "QuantizerBuilder", "RaggedOpsBuilder",
            "RaggedUtilsBuilder", "RandomLTDBuilder", "ShareMemCommBuilder", "SparseAttnBuilder", "SpatialInferenceBuilder",
            "StochasticTransformerBuilder", "TransformerBuilder", "UtilsBuilder")
# Builders with kernels for a GPU, which compute-sanitizer examines.
KERNELS = ("DecoderInferenceBuilder", "EvoformerAttnBuilder", "FPQuantizerBuilder", "FusedAdamBuilder", "FusedLambBuilder",
           "FusedLionBuilder", "QuantizerBuilder", "RandomLTDBuilder", "SparseAttnBuilder", "SpatialInferenceBuilder",
           "StochasticTransformerBuilder", "TransformerBuilder")
SANITIZED = ("memcheck", "racecheck")
# The folder of this package. In a build folder, its files are links into the source tree.
PACKAGES = pathlib.Path(os.path.abspath(__file__)).parent.parent


class Setting:
    """Paths of the programs, and how to start them.

    `root` is the source tree, or None for an installation. `build` is the folder for the build and
    for everything that the parts write except the report.
    """
    def __init__(self, options, root):
        self.root, self.build, self.python, self.backend = root, options.build.resolve(), options.python, options.backend
        self.preset, self.stands_in = options.preset, options.stands_in
        if root is not None:
            self.packages, self.bin = self.build / "python", self.build / "bin"
        else:
            self.packages, self.bin = PACKAGES, pathlib.Path(options.program).parent if options.program else None

    def environment(self, base):
        """Return the environment variables for all parts. If the home directory is read-only, the caches of torch
        and of the compilers are in the build folder.
        """
        path = [
            str(self.packages), *([str(self.root / "benchmarks")] if self.root is not None else []),
            *base.get("PYTHONPATH", "").split(":")
        ]
        out = {
            **base, "DS_ACCELERATOR": self.backend, "PYTHONPATH": ":".join(dict.fromkeys(filter(None, path))),
            "ANYACCEL_OP_CACHE": str(self.build / "op-cache")
        }
        if not facts.is_writable(os.path.expanduser("~")):
            for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "CCACHE_DIR", "XDG_CACHE_HOME"):
                out.setdefault(name, str(self.build / "cache" / name.split("_")[0].lower()))
        if self.stands_in:
            out["SIM_STANDS_IN_FOR"] = self.stands_in
        return out

    def module(self, name, *arguments):
        return [self.python, "-B", "-m", f"anyaccel_prove.checks.{name}", *arguments]

    def program(self, name):
        """Return the path of a program, or None."""
        path = self.bin / name if self.bin is not None else None
        return path if path is not None and path.exists() else None


def builders(root):
    """Return {class name: backends} from the op descriptions, or the known names."""
    if root is None:
        return {name: {"*"} for name in BUILDERS}
    names = {}
    for file in sorted((root / "src/ops").glob("*/*.op")):
        text = file.read_text()
        class_name = re.search(r"^class_name = (\w+)", text, re.M)
        backends = re.search(r"^backends = (.*)", text, re.M)
        if class_name:
            names.setdefault(class_name.group(1), set()).update(re.split(r"[,\s]+", backends.group(1).strip() if backends else "*"))
    return names


def build_parts(setting):
    """Return the part that configures and compiles the library, the Python package and the conformance kit."""
    if setting.root is None:
        return []
    with_sim = setting.backend == "sim" or setting.stands_in
    configure = [
        "cmake", "--preset", setting.preset, "-B",
        str(setting.build), f"-DANYACCEL_PYTHON={setting.python}", "-DANYACCEL_BUILD_PYTHON=ON", "-DANYACCEL_BUILD_OPS=OFF",
        f"-DANYACCEL_SIM={'ON' if with_sim else 'OFF'}", "-DANYACCEL_WERROR=OFF", "-DANYACCEL_BUILD_TESTS=OFF", "--log-level=NOTICE"
    ]
    if setting.preset == "minimal" and setting.backend not in ("cpu", "cuda", "sim"):
        configure.append(f"-DANYACCEL_BACKENDS=cpu;cuda;{setting.backend}")
    # An existing build folder keeps its generator.
    if not shutil.which("ninja") and not (setting.build / "CMakeCache.txt").exists():
        configure += ["-G", "Unix Makefiles"]
    return [Part("build", [configure, ["cmake", "--build", str(setting.build), "-j", str(facts.jobs())]])]


def conformance_part(setting, environment, needs):
    """Return the part that runs the conformance kit. Minimal builds have a separate program for it."""
    if setting.root is not None:
        minimal = setting.preset == "minimal"
        command = [str(setting.bin / "anyaccel_conformance")] if minimal else [str(setting.bin / "anyaccel"), "conformance"]
    elif program := setting.program("anyaccel"):
        command = [str(program), "conformance"]
    else:
        return Part("conformance", skip="this installation has no program")
    command = [*command, "--backend", setting.backend]
    return Part("conformance", [[*command, "--json", "-"]],
                needs=needs,
                read=readers.conformance(command_text(command, environment)))


def op_parts(setting, environment, needs):
    out = []
    for name, backends in builders(setting.root).items():
        if backends & {"*", setting.backend}:
            command = setting.module("ops", name)
            out.append(
                Part(f"op:{name}", [command], needs=needs, group="ops", read=readers.checks(command_text(command, environment))))
    return out


def test_parts(setting, needs):
    """Return the parts that run the ops' tests on the device. `make test` runs them on cpu and sim."""
    if setting.root is None or setting.backend in ("cpu", "sim") or setting.stands_in:
        return []
    have = facts.first_line(setting.python, "-c", "import pytest; print(pytest.__version__)")
    out = []
    for name in TESTS:
        file = setting.root / f"tests/python/{name}_test.py"
        if file.exists() and (name != "decoder_cuda" or setting.backend == "cuda"):
            out.append(
                Part(f"tests:{name}",
                     [[setting.python, "-B", str(setting.root / "tests/python/run.py"),
                       str(file)]],
                     needs=needs,
                     skip=None if have else "pytest is not installed",
                     environment={"ANYACCEL_TEST_SKIP_WITHOUT_DEVICE": "1"},
                     read=lambda output: {"summary": output.strip().splitlines()[-1]}))
    return out


def model_parts(setting, environment, needs):
    """Return the parts that train and generate: with the ops in Python, and with the program if it exists."""
    out = []
    for name in ("train", "generate"):
        command = setting.module("end_to_end", name)
        out.append(Part(f"models:{name}", [command], needs=needs, read=readers.checks(command_text(command, environment))))
    if setting.root is not None and setting.preset == "minimal":
        return [*out, Part("models:program", skip="the minimal build has no program; --preset release builds it")]
    program = setting.program("anyaccel") if setting.root is None else setting.bin / "anyaccel"
    if program is None:
        return [*out, Part("models:program", skip="this installation has no program")]
    command = setting.module("program", str(program), str(setting.build / "prove-models"))
    return [*out, Part("models:program", [command], needs=needs, read=readers.checks(command_text(command, environment)))]


def benchmark_parts(setting, needs):
    small = [] if setting.backend not in ("cpu", "sim") and not setting.stands_in else ["--small"]
    out = [
        Part("bench:kernels", [setting.module("speed", "--peaks", str(setting.build / "peaks.json"), *small)],
             needs=[*needs, "peaks"],
             read=readers.table("kernels"))
    ]
    if setting.root is None:
        return out
    sys.path.insert(0, str(setting.root / "benchmarks"))
    from runner import declare  # the package benchmarks/runner
    for benchmark in declare.find(setting.root / "benchmarks"):
        if benchmark.name.endswith("_cuda") and len(benchmark.sides) == 1:
            words = [
                word.replace("{python}", setting.python).replace("{here}", str(setting.root / "benchmarks"))
                for word in benchmark.sides[0].command
            ]
            read = readers.benchmark(benchmark, bool(small))
            out.append(Part(f"bench:{benchmark.name}", [words + ["small"] * len(small)], needs=needs, read=read))
    return out


def find_sanitizer():
    """Return the path of compute-sanitizer: on PATH, or in the CUDA toolkit of nvcc."""
    nvcc = shutil.which("nvcc")
    toolkits = [os.environ.get("CUDA_HOME"), nvcc and os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))]
    folders = [os.path.join(folder, part) for folder in toolkits if folder for part in ("bin", "compute-sanitizer")]
    return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=os.pathsep.join(folders) or os.devnull)


def sanitizer_parts(setting, needs):
    tool = find_sanitizer()
    if setting.backend != "cuda" or setting.stands_in:
        return [Part("sanitizer", skip="compute-sanitizer examines CUDA kernels only")]
    if not tool:
        return [Part("sanitizer", skip="compute-sanitizer is neither on PATH nor in the CUDA toolkit")]
    # Libraries probe the driver with calls that may fail. Without torch's caching allocator, each
    # tensor has its own bounds.
    options = "--error-exitcode 9 --print-limit 20 --report-api-errors no --target-processes application-only".split()
    return [
        Part(f"sanitizer:{kind}:{name}",
             [[tool, "--tool", kind, *options, *setting.module("ops", name, "--quick")]],
             needs=needs,
             environment={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
             read=lambda output: {"summary": readers.checks("")(output)["summary"]}) for kind in SANITIZED for name in KERNELS
    ]


def parts_of(setting, environment):
    """Return all parts in order."""
    own = ["build"] if setting.root is not None else []
    report = ("import anyaccel; a = anyaccel.get_accelerator(); "
              "print(a.device_name(), a.device_count(), a.total_memory(), a.communication_backend_name())")
    known_to_torch = setting.backend != "sim" and not setting.stands_in
    peaks = Part("peaks",
                 [setting.module("peaks", "--out", str(setting.build / "peaks.json"), *([] if known_to_torch else ["--anyaccel"]))],
                 needs=[] if known_to_torch else own,
                 read=readers.table("peaks"),
                 minutes=4)
    if known_to_torch and setting.root is not None:  # the build has not linked the package yet
        peaks.environment["PYTHONPATH"] = f"{setting.root / 'bindings/python'}:{environment['PYTHONPATH']}"
    return [
        *([peaks] if known_to_torch else []), *build_parts(setting),
        Part("device", [[setting.python, "-c", report]],
             needs=own,
             minutes=2,
             read=lambda output: {"summary": output.strip()[-200:]}), *([] if known_to_torch else [peaks]),
        conformance_part(setting, environment, own), *op_parts(setting, environment, own), *model_parts(setting, environment, own),
        *benchmark_parts(setting, own), *test_parts(setting, own), *sanitizer_parts(setting, own)
    ]
