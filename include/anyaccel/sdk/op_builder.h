// Op builders for authors of ops and backends: registration, and creation from a description. Op
// builders have the same names as in DeepSpeed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/op_builder.h"

namespace anyaccel::sdk {

using anyaccel::OpBuilder;
using anyaccel::OpBuilderFactory;

/// Placeholder for an op that a backend lacks, like DeepSpeed's NotImplementedBuilder. load()
/// throws `unsupported`, naming the op, the backend and, for an unknown op, the closest match.
class ANYACCEL_API NotImplementedBuilder final : public OpBuilder {
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

/// Options for a builder that is created from a description.
struct OpBuilderOptions {
  /// Name or path of the compiler. Empty: the compiler that the description names, otherwise CXX,
  /// otherwise the system's compiler.
  std::string compiler = {};
};

/// Create a builder for the op that the text file `description` (`<op>.op`, see
/// docs/reference/op-builders.md) describes. The sources are in the same folder as that file.
/// load() builds them once and keeps the library in the user's cache; it is safe to call from
/// several threads and processes at the same time. Throws `not_found` if the file does not exist
/// and `corrupt` if it is invalid.
ANYACCEL_API std::shared_ptr<OpBuilder> make_op_builder(const std::string& description,
                                                        const OpBuilderOptions& options = {});

/// Register an op builder for the backend with that name. Throws `invalid_argument` if it is
/// already registered. Thread-safe.
ANYACCEL_API void register_op_builder(const std::string& backend, const std::string& class_name,
                                      OpBuilderFactory factory);
/// Return the factory registered for this backend and class name. If there is none, return the
/// factory for AnyAccel's op with that class name if the op supports the backend, otherwise an
/// empty function. Thread-safe.
ANYACCEL_API OpBuilderFactory find_op_builder(const std::string& backend,
                                              const std::string& class_name);
/// Return the sorted class names for which find_op_builder() has a factory. Thread-safe.
ANYACCEL_API std::vector<std::string> registered_op_builders(const std::string& backend);

}  // namespace anyaccel::sdk
