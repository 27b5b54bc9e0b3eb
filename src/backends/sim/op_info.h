// What an op's schema says, worked out once.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

namespace anyaccel::backends::sim {

struct OpInfo {
  explicit OpInfo(const c10::OperatorHandle& handle);

  c10::OperatorHandle op;
  std::string name;            ///< "aten::add.out"
  std::vector<bool> written;   ///< arguments that the op writes to
  std::vector<bool> by_value;  ///< arguments whose number, and not only its type, may decide the
                               ///< results' geometry
  std::vector<int> returned;   ///< for each return the argument that it is; -1: a new value
  int fresh = 0;               ///< returns that are new
  int generator = -1;          ///< the argument of random ops
  bool view = false;           ///< the result shares the first argument's memory
  bool host_kernel = false;    ///< the CPU has a kernel
  bool own_thread = false;     ///< may need the caller's thread: not one of torch's own ops
  bool waits = false;  ///< its results' shapes, or values that are no tensors, depend on data
  bool known_shapes =
      false;  ///< torch has code for its results' shapes that no device does in another way
  bool takes_host_tensors = false;  ///< as on a GPU, index tensors and the like may be on the host
  std::optional<c10::OperatorHandle>
      out;  ///< the same op writing to given results, where the CPU has a kernel for it
};

/// Thread-safe; the answer lives for ever.
const OpInfo& op_info(const c10::OperatorHandle& op);

}  // namespace anyaccel::backends::sim
