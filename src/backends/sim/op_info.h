// Information about an op, computed once from its schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

namespace anyaccel::backends::sim {

struct OpInfo {
  explicit OpInfo(const c10::OperatorHandle& handle);

  c10::OperatorHandle op;
  std::string name;           ///< "aten::add.out"
  std::vector<bool> written;  ///< arguments that the op writes to
  /// Arguments whose value, in addition to their type, may determine the results' geometry.
  std::vector<bool> by_value;
  std::vector<int> returned;  ///< for each result, the argument that it aliases; -1: a new value
  int fresh = 0;              ///< number of results that are new values
  int generator = -1;         ///< the generator argument of random ops; -1 if there is none
  bool view = false;          ///< the result shares the first argument's memory
  bool host_kernel = false;   ///< the CPU has a kernel
  bool own_thread =
      false;  ///< true for ops of other libraries, which may have to run on the caller's thread
  bool waits = false;  ///< its results' shapes depend on data, or some results are not tensors
  bool known_shapes =
      false;  ///< torch infers its results' shapes with the same code for every device
  bool takes_host_tensors =
      false;  ///< as on a GPU, some arguments such as index tensors may be on the host
  std::optional<c10::OperatorHandle> out;  ///< its out= form, if the CPU has a kernel for it
};

/// Thread-safe. The reference stays valid.
const OpInfo& op_info(const c10::OperatorHandle& op);

}  // namespace anyaccel::backends::sim
