// Op builders: what knows an op's sources and needs, and loads it. Names are DeepSpeed's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace anyaccel {

/// Whether something can be done here, with the reason when not.
struct Compatibility {
  bool compatible = false;
  std::string reason;  ///< empty when compatible
};

namespace sdk {

/// Builds or finds the library of one op and loads it.
class OpBuilder {
 public:
  virtual ~OpBuilder() = default;
  /// DeepSpeed's class name, for example "CPUAdamBuilder".
  virtual std::string class_name() const = 0;
  /// DeepSpeed's `NAME`, for example "cpu_adam".
  virtual std::string name() const = 0;
  /// Never throws, never starts a device.
  virtual Compatibility is_compatible() const noexcept = 0;
  /// Loads the op; afterwards `torch.ops.anyaccel.*` has it. Throws `build_failed`, `unsupported` or `unavailable`.
  virtual void load() = 0;
};

/// What stands for an op that a backend lacks: is_compatible() says so and load() throws `unsupported`,
/// both naming op and backend. As DeepSpeed's NotImplementedBuilder.
class NotImplementedBuilder final : public OpBuilder {
 public:
  NotImplementedBuilder(std::string class_name, std::string backend);
  std::string class_name() const override { return class_name_; }
  std::string name() const override;
  Compatibility is_compatible() const noexcept override;
  void load() override;

 private:
  std::string class_name_;
  std::string backend_;
};

using OpBuilderFactory = std::function<std::shared_ptr<OpBuilder>()>;

/// Offers an op builder for the backend of that name. A second one under the same two names is refused
/// with `invalid_argument`. Thread-safe.
void register_op_builder(const std::string& backend, const std::string& class_name, OpBuilderFactory factory);
/// The factory registered under the two names; empty when there is none. Thread-safe.
OpBuilderFactory find_op_builder(const std::string& backend, const std::string& class_name);
/// Class names registered for a backend, sorted. Thread-safe.
std::vector<std::string> registered_op_builders(const std::string& backend);

}  // namespace sdk
}  // namespace anyaccel
