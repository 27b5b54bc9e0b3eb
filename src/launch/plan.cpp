#include "launch/plan.h"

namespace anyaccel::launch {

const char* to_string(MemoryPolicy policy) noexcept {
  switch (policy) {
    case MemoryPolicy::none: return "none";
    case MemoryPolicy::bind: return "bind";
    case MemoryPolicy::preferred: return "preferred";
  }
  return "none";
}

}  // namespace anyaccel::launch
