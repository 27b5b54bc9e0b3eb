// Op builders for programs: an op builder finds or builds the library of an op and loads it. Class
// names are the same as in DeepSpeed. sdk/op_builder.h is for op authors.
//
//     get_accelerator().create_op_builder("CPUAdamBuilder")->load();
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel {

/// Whether a feature works in this process, with the reason if it does not.
struct Compatibility {
  bool compatible = false;
  std::string reason;  ///< empty when compatible
};

/// Finds or builds the library of one op, and loads it. Created by
/// `Accelerator::create_op_builder()`.
class ANYACCEL_API OpBuilder {
 public:
  virtual ~OpBuilder() = default;
  /// DeepSpeed class name, for example "CPUAdamBuilder".
  virtual std::string class_name() const = 0;
  /// DeepSpeed's `NAME`, for example "cpu_adam".
  virtual std::string name() const = 0;
  /// Return whether load() is expected to succeed. Does not initialize any device.
  virtual Compatibility is_compatible() const noexcept = 0;
  /// Load the op, building its library first if necessary. Afterwards `torch.ops.anyaccel` contains
  /// its functions. Throws `build_failed`, `unsupported` or `unavailable`.
  virtual void load() = 0;
  /// Absolute paths of the source files. Empty by default.
  virtual std::vector<std::string> sources() const { return {}; }
  /// Absolute paths of the include folders. Empty by default.
  virtual std::vector<std::string> include_paths() const { return {}; }
};

/// Creates a new builder on each call.
using OpBuilderFactory = std::function<std::shared_ptr<OpBuilder>()>;

}  // namespace anyaccel
