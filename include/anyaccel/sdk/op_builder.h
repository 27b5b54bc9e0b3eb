// Op builders as authors of ops and backends use them: what knows an op's sources and needs, and
// loads it. Names are DeepSpeed's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/op_builder.h"

namespace anyaccel::sdk {

using anyaccel::OpBuilder;
using anyaccel::OpBuilderFactory;

/// What stands for an op that a backend lacks: is_compatible() says so and load() throws
/// `unsupported`, both naming op and backend, and for a name that is none, the nearest that is. As
/// DeepSpeed's NotImplementedBuilder.
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

/// What a builder that is made from a description may be told.
struct OpBuilderOptions {
  std::string compiler =
      {};  ///< program or path; empty: the description's, else CXX, else the system's
};

/// A builder of the op that the text file `description` (`<op>.op`, see
/// docs/reference/op-builders.md) describes. Its sources lie beside that file, in an extension's
/// own folder; they are built when it is first loaded and then kept in the user's cache. load() is
/// thread-safe and safe in any number of processes at once. Throws `not_found` and `corrupt` for
/// the file.
ANYACCEL_API std::shared_ptr<OpBuilder> make_op_builder(const std::string& description,
                                                        const OpBuilderOptions& options = {});

/// Offers an op builder for the backend of that name. A second one under the same two names is
/// refused with `invalid_argument`. Thread-safe.
ANYACCEL_API void register_op_builder(const std::string& backend, const std::string& class_name,
                                      OpBuilderFactory factory);
/// The factory registered under the two names, else that of AnyAccel's own op of that name, where
/// the op serves the backend; empty when there is none. Thread-safe.
ANYACCEL_API OpBuilderFactory find_op_builder(const std::string& backend,
                                              const std::string& class_name);
/// Class names that find_op_builder() finds for a backend, sorted. Thread-safe.
ANYACCEL_API std::vector<std::string> registered_op_builders(const std::string& backend);

}  // namespace anyaccel::sdk
