// Op builders as programs use them:
// `get_accelerator().create_op_builder("CPUAdamBuilder")->load()`. Names are DeepSpeed's.
// sdk/op_builder.h is for authors of ops.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "anyaccel/export.h"

namespace anyaccel {

/// Whether something is possible in this process, and why not.
struct Compatibility {
  bool compatible = false;
  std::string reason;  ///< empty when compatible
};

/// Finds or builds the library of one op, and loads it.
class ANYACCEL_API OpBuilder {
 public:
  virtual ~OpBuilder() = default;
  /// DeepSpeed's class name, for example "CPUAdamBuilder".
  virtual std::string class_name() const = 0;
  /// DeepSpeed's `NAME`, for example "cpu_adam".
  virtual std::string name() const = 0;
  /// Whether load() will succeed. Does not start a device.
  virtual Compatibility is_compatible() const noexcept = 0;
  /// Loads the op; afterwards `torch.ops.anyaccel.*` has it. Throws `build_failed`, `unsupported`
  /// or `unavailable`.
  virtual void load() = 0;
  /// Absolute paths of the sources; empty by default.
  virtual std::vector<std::string> sources() const { return {}; }
  /// Absolute paths of include folders; empty by default.
  virtual std::vector<std::string> include_paths() const { return {}; }
};

using OpBuilderFactory = std::function<std::shared_ptr<OpBuilder>()>;

}  // namespace anyaccel
