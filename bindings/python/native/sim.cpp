// Binds the simulated accelerator (include/anyaccel/sim.h) for anyaccel/sim.py.
#include "anyaccel/sim.h"

#include "binding.h"

namespace anyaccel::python {

void bind_sim([[maybe_unused]] py::module_& module) {
#if ANYACCEL_WITH_SIM
  py::class_<sim::Options>(module, "SimOptions")
      .def(py::init<>())
      .def_readwrite("devices", &sim::Options::devices)
      .def_readwrite("visible", &sim::Options::visible)
      .def_readwrite("memory", &sim::Options::memory)
      .def_readwrite("dtypes", &sim::Options::dtypes)
      .def_readwrite("latency_us", &sim::Options::latency_us)
      .def_readwrite("stands_in_for", &sim::Options::stands_in_for)
      .def_readwrite("seed", &sim::Options::seed)
      .def_readwrite("faults", &sim::Options::faults)
      .def_readwrite("check", &sim::Options::check)
      .def_readwrite("check_json", &sim::Options::check_json);
  py::class_<sim::Problem>(module, "SimProblem")
      .def_readonly("kind", &sim::Problem::kind)
      .def_readonly("op", &sim::Problem::op)
      .def_readonly("stream", &sim::Problem::stream)
      .def_readonly("shape", &sim::Problem::shape)
      .def_readonly("message", &sim::Problem::message)
      .def_readonly("what", &sim::Problem::what)
      .def_readonly("remedy", &sim::Problem::remedy)
      .def_readonly("stack", &sim::Problem::stack);
  module.def("sim_options_from_environment", &sim::options_from_environment);
  module.def("sim_set_option", &sim::set_option);
  module.def("sim_install", &sim::install, NoGil());
  module.def("sim_reset", &sim::reset, NoGil());
  module.def("sim_problems", &sim::problems, NoGil());
  module.def("sim_notes", &sim::notes, NoGil());
  module.def("sim_installed", &sim::installed);
#endif
}

}  // namespace anyaccel::python
