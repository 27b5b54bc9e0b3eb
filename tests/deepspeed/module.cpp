// Python module `deepspeed_adapter`: judge(accelerator, name, [options of the kit]) runs the kit
// and returns its exit code.
#include "anyaccel/conformance/kit.h"
#include "anyaccel/registry.h"
#include "anyaccel/sdk/registration.h"
#include "backend.h"

namespace anyaccel::deepspeed {

namespace {

int judge(const py::object& accelerator, const std::string& name,
          const std::vector<std::string>& options) {
  const auto traits = traits_of(accelerator, name);
  static const auto* kept = new py::object(accelerator);
  register_backend({traits, [traits] { return make_backend(*kept, traits); },
                    [] {
                      return sdk::Probe{1, "a Python object"};
                    }});
  std::vector<const char*> words{"deepspeed_adapter", "--backend", name.c_str()};
  for (const auto& option : options) words.push_back(option.c_str());
  // Cases run in children that this thread forks. Threads of these children must be able to acquire
  // the GIL.
  const py::gil_scoped_release no_gil;
  return conformance::conformance_main(static_cast<int>(words.size()), words.data());
}

}  // namespace

}  // namespace anyaccel::deepspeed

PYBIND11_MODULE(deepspeed_adapter, module) { module.def("judge", &anyaccel::deepspeed::judge); }
