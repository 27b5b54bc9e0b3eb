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
  /// Never throws, never starts a device, and agrees with what load() then does.
  virtual Compatibility is_compatible() const noexcept = 0;
  /// Loads the op; afterwards `torch.ops.anyaccel.*` has it. Throws `build_failed`, `unsupported` or `unavailable`.
  virtual void load() = 0;
  /// The sources, absolute; empty (the default) when the builder does not tell.
  virtual std::vector<std::string> sources() const { return {}; }
  /// Folders that the compiler gets, absolute; empty by default.
  virtual std::vector<std::string> include_paths() const { return {}; }
};

/// What stands for an op that a backend lacks: is_compatible() says so and load() throws `unsupported`,
/// both naming op and backend, and for a name that is none, the nearest that is. As DeepSpeed's NotImplementedBuilder.
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

/// What a builder that is made from a description may be told.
struct OpBuilderOptions {
  std::string compiler = {};  ///< program or path; empty: the description's, else CXX, else the system's
};

/// A builder of the op that the text file `description` (`<op>.op`, see docs/reference/op-builders.md) describes. Its sources lie beside that file, in
/// an extension's own folder; they are built when it is first loaded and then kept in the user's cache. load() is thread-safe and
/// safe in any number of processes at once. Throws `not_found` and `corrupt` for the file.
std::shared_ptr<OpBuilder> make_op_builder(const std::string& description, const OpBuilderOptions& options = {});

using OpBuilderFactory = std::function<std::shared_ptr<OpBuilder>()>;

/// Offers an op builder for the backend of that name. A second one under the same two names is refused
/// with `invalid_argument`. Thread-safe.
void register_op_builder(const std::string& backend, const std::string& class_name, OpBuilderFactory factory);
/// The factory registered under the two names, else that of AnyAccel's own op of that name, where the op serves the backend;
/// empty when there is none. Thread-safe.
OpBuilderFactory find_op_builder(const std::string& backend, const std::string& class_name);
/// Class names that find_op_builder() finds for a backend, sorted. Thread-safe.
std::vector<std::string> registered_op_builders(const std::string& backend);

}  // namespace sdk
}  // namespace anyaccel
