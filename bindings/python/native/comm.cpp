// The module anyaccel._comm: backends for torch.distributed. It is separate because most programs
// do not need it.
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "anyaccel/comm.h"

PYBIND11_MODULE(_comm, module) {
  namespace py = pybind11;
  // Registers torch's classes Store and Backend, which the signatures use.
  py::module_::import("torch.distributed");
  module.def(
      "make_backend",
      [](const std::string& name, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
         double seconds) {
        return anyaccel::comm::make_backend(
            name, store,
            {.rank = rank,
             .size = size,
             .timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
                 std::chrono::duration<double>(seconds))});
      },
      py::call_guard<py::gil_scoped_release>());
}
