"""tools/check_layers on small trees that each break one rule."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/check_layers"
GOOD = {
    "include/anyaccel/error.h": "#pragma once\n",
    "include/anyaccel/accelerator.h": '#include <c10/core/Device.h>\n#include "anyaccel/error.h"\n',
    "include/anyaccel/sdk/traits.h": "#pragma once\n",
    "src/base/log.h": '#include "anyaccel/error.h"\n',
    "src/topology/machine.h": '#include "base/log.h"\n',
    "src/core/registry.h": '#include "anyaccel/accelerator.h"\n#include "base/log.h"\n',
    "src/core/registry.cpp": '#include "core/registry.h"\nauto host = at::kCPU; auto type = at::DeviceType::CPU; auto t = x.cpu();  // not "cuda"\n',
    "src/backends/torch/generic.h": '#include "core/registry.h"\n',
    "src/backends/cuda/traits.cpp": '#include "anyaccel/sdk/traits.h"\nauto name = "cuda";\n',
    "src/backends/cuda/backend.h": '#include "backends/torch/generic.h"\n',
    "src/backends/cuda/backend.cpp": '#include "backends/cuda/backend.h"\n#include <ATen/cuda/CUDAGraph.h>\nauto d = c10::kCUDA;\n',
    "src/backends/cpu/backend.h": '#include "topology/machine.h"\n#include "backends/torch/generic.h"\n',
    "src/llm/model.cpp": '#include "anyaccel/accelerator.h"\nauto text = "see cuda:0 and cpu";\n',
    "src/cli/commands/train.cpp": '#include "anyaccel/accelerator.h"\n',
}


def run(files):
    """Return (exit status, output) of the tool on GOOD with `files` added."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**GOOD, **files}.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        result = subprocess.run([sys.executable, TOOL, "--root", folder], capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr


class CheckLayers(unittest.TestCase):
    def refused(self, name, text, *words):
        status, output = run({name: text})
        self.assertEqual(status, 1, output)
        self.assertIn(name, output)
        for word in words:
            self.assertIn(word, output)

    def accepted(self, name, text):
        status, output = run({name: text})
        self.assertEqual(status, 0, output)

    # Fails if includes that the layers allow are rejected.
    def test_good_tree(self):
        status, output = run({})
        self.assertEqual(status, 0, output)
        self.assertIn("14 files, 0 errors, 0 warnings", output)

    # Fails if an invalid --root, or a tree without src/, does not give an error.
    def test_empty_tree_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(subprocess.run([sys.executable, TOOL, "--root", folder], capture_output=True).returncode, 1)

    # Fails if base is allowed to include a header of a higher layer.
    def test_lower_layer_includes_upper(self):
        self.refused("src/base/bad.cpp", '#include "core/registry.h"\n', "src/base/bad.cpp:1", "may not include")
        self.refused("src/core/bad.cpp", '#include "topology/machine.h"\n', "may not include")
        self.refused("src/llm/bad.cpp", '#include "core/registry.h"\n', "may not include")

    # Fails if a header for callers is allowed to include a header for backend authors.
    def test_callers_header_includes_authors_header(self):
        self.refused("include/anyaccel/bad.h", '#include "anyaccel/sdk/traits.h"\n', "may not include")
        self.accepted("include/anyaccel/sdk/good.h", '#include "anyaccel/error.h"\n')

    # Fails if a backend is allowed to include another backend's headers.
    def test_backend_includes_backend(self):
        self.refused("src/backends/cpu/bad.cpp", '#include "backends/cuda/backend.h"\n', "other backends may not include it")
        self.refused("src/backends/cpu/bad.cpp", '#include "../cuda/backend.h"\n', "other backends may not include it")

    # Fails if core or the command line is allowed to include a backend's headers.
    def test_backend_header_from_elsewhere(self):
        self.refused("src/core/bad.cpp", '#include "backends/cuda/backend.h"\n')
        self.refused("src/cli/commands/bad.cpp", '#include "backends/torch/generic.h"\n')

    # Fails if a backend other than cpu is allowed to include headers of src/topology.
    def test_only_cpu_includes_topology(self):
        self.refused("src/backends/cuda/bad.cpp", '#include "topology/machine.h"\n', "may not include")

    # Fails if traits or the front program is allowed to include torch indirectly.
    def test_torch_free_through_other_headers(self):
        self.refused("src/backends/cuda/traits.h", '#include "anyaccel/accelerator.h"\n', "must not depend on torch", "c10/core/Device.h")
        self.refused("src/cli/front/main.cpp", '#include "anyaccel/accelerator.h"\n', "must not depend on torch")
        self.refused("src/base/bad.h", "#include <ATen/core/Tensor.h>\n", "must not depend on torch")

    # Fails if a public header is allowed to include a header that is not installed.
    def test_public_header_includes_source(self):
        self.refused("include/anyaccel/bad.h", '#include "base/log.h"\n', "not installed")

    # Fails if code is allowed to compare a name with a vendor's device name. Comments are allowed
    # to contain such names.
    def test_device_name_in_quotes(self):
        self.refused("src/llm/bad.cpp", 'bool f() { return name == "cuda"; }\n', "src/llm/bad.cpp:1", '"cuda"')
        self.refused("src/core/bad.cpp", 'auto d = "cuda:0";\n')
        self.refused("src/backends/cpu/bad.cpp", 'auto d = "cuda";\n')
        self.refused("src/backends/torch/bad.cpp", 'auto d = "xpu";\n')
        self.refused("src/llm/bad.cpp", 'auto d = R"(mps)";\n')
        self.accepted("src/llm/fine.cpp", '// "cuda"\n/* "cpu" */ auto d = "the cuda device";\n')

    # Fails if the name of a new folder in src/backends does not count as a device name.
    def test_names_come_from_the_folders(self):
        status, output = run({"src/backends/newchip/traits.cpp": "\n", "src/core/bad.cpp": 'auto d = "newchip";\n'})
        self.assertEqual(status, 1, output)
        self.assertIn('"newchip"', output)

    # Fails if torch's constant for a device type is accepted where its quoted name is rejected.
    def test_torch_constants(self):
        self.refused("src/core/bad.cpp", "auto d = c10::kCUDA;\n", "kCUDA")
        self.refused("src/llm/bad.cpp", "auto d = c10::DeviceType::XPU;\n", "XPU")

    # Fails if core is allowed to name a backend in an identifier.
    def test_core_names_backend(self):
        self.refused("src/core/bad.cpp", "\nauto b = make_cuda_backend();\n", "src/core/bad.cpp:2", '"cuda"')

    # Fails if a vendor's header can be included outside the vendor's folder. Machines without the
    # vendor's software lack the header.
    def test_vendor_headers(self):
        self.refused("src/core/bad.cpp", "#include <ATen/cuda/CUDAGraph.h>\n", "header of cuda")
        self.refused("src/backends/cpu/bad.cpp", "#include <nvml.h>\n", "header of cuda")
        self.refused("src/base/bad.cpp", "#include <hwloc.h>\n", "src/topology")

    # Fails if including a header that takes 20 s to compile is allowed.
    def test_slow_headers(self):
        self.refused("src/llm/bad.cpp", "#include <torch/torch.h>\n", "slow")

    # Fails if a new folder, for which there are no rules yet, is exempt.
    def test_unknown_folder(self):
        self.refused("src/misc/a.cpp", "\n", "does not belong to any layer")

    # Fails if a layer without torch is allowed to include torch, or a kernel to include another
    # layer.
    def test_layers_without_torch(self):
        self.refused("src/text/tokenizer/bad.cpp", '#include "anyaccel/accelerator.h"\n', "must not depend on torch")
        self.refused("src/kernels/simd/bad.h", "#include <ATen/core/Tensor.h>\n", "must not depend on torch")
        self.refused("src/kernels/simd/bad.h", '#include "anyaccel/error.h"\n', "no other layer")
        self.refused("src/comm/shm/bad.h", '#include "anyaccel/accelerator.h"\n', "must not depend on torch")
        self.accepted("src/comm/groups.cpp", '#include "anyaccel/accelerator.h"\n')

    # Fails if llm is allowed to include private headers of comm, an op or a kernel.
    def test_llm_sees_public_headers(self):
        for header in ("comm/bad.h", "ops/adam/bad.h", "kernels/bad.h"):
            status, output = run({f"src/{header}": "#pragma once\n", "src/llm/bad.cpp": f'#include "{header}"\n'})
            self.assertEqual(status, 1, output)
            self.assertIn("llm may not include", output)

    # Fails if Python code is allowed to name a vendor's device.
    def test_device_name_in_python(self):
        self.refused("bindings/python/bad.py", 'if name == "cuda":\n    pass\n', "bindings/python/bad.py:1", '"cuda"')
        self.refused("bindings/python/cpu_accelerator.py", 'X = "cuda"\n', '"cuda"')
        self.accepted("bindings/python/cuda_accelerator.py", 'X = "cuda"\n')
        self.accepted("bindings/python/fine.py", 'import torch\nhost = "cpu"\ntext = "the cuda device"\n')

    # Fails if a long source is an error, or gives no warning.
    def test_long_source_is_a_warning(self):
        status, output = run({"src/base/long.cpp": "\n" * 401})
        self.assertEqual(status, 0, output)
        self.assertIn("src/base/long.cpp:401: warning", output)


if __name__ == "__main__":
    unittest.main()
