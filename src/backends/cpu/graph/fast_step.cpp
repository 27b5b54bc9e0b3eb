#include "backends/cpu/graph/fast_step.h"

#include <sstream>
#include <unordered_map>

namespace anyaccel::backends::cpu {

FastMaker find_fast_maker(const std::string& name) {
  static const auto makers = [] {
    std::unordered_map<std::string, FastMaker> made;
    for (const auto table :
         {unary_ops(), binary_ops(), reduction_ops(), matrix_ops(), memory_ops()}) {
      for (const auto& op : table) {
        std::istringstream names(op.names);
        for (std::string one; names >> one;) made.emplace("aten::" + one, op.make);
      }
    }
    return made;
  }();
  const auto maker = makers.find(name);
  return maker == makers.end() ? nullptr : maker->second;
}

}  // namespace anyaccel::backends::cpu
