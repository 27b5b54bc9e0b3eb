// Op builders from descriptions that are created at run time, for language bindings. C++ code
// creates builders from description files instead (sdk/op_builder.h).
#pragma once

#include <memory>
#include <string>

#include "anyaccel/export.h"
#include "anyaccel/sdk/op_builder.h"

namespace anyaccel::sdk {

/// Create an op builder from the text of a description, like make_op_builder(). `folder`: the
/// folder of the sources. Throws `corrupt` for an invalid description.
ANYACCEL_API std::shared_ptr<OpBuilder> make_described_builder(
    const std::string& text, const std::string& folder, const OpBuilderOptions& options = {});
/// Return the absolute path of the library that load() loaded. Returns an empty string before
/// load(), and for builders that were not created from a description or a description file.
ANYACCEL_API std::string library_of(const OpBuilder& builder);

}  // namespace anyaccel::sdk
