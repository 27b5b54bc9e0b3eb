// A checkpoint is written with memcpy() from the weights' device memory.
#include <cstring>

#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(checkpoint_by_memcpy, "host_access", "host code", "float32 [100, 10]") {
  const auto weight = at::ones({100, 10}, on());
  const auto source = fixed ? weight.cpu() : weight;
  std::vector<char> file(weight.nbytes());
  std::memcpy(file.data(), source.const_data_ptr(), file.size());
}

}  // namespace anyaccel::sim_bugs
