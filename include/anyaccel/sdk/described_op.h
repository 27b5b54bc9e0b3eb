// Op builders from descriptions that are created at run time, for language bindings. Builders in
// C++ use a file (sdk/op_builder.h).
#pragma once

#include <memory>
#include <string>

#include "anyaccel/export.h"
#include "anyaccel/sdk/op_builder.h"

namespace anyaccel::sdk {

/// Create an op builder from the text of a description, like make_op_builder(). `folder`: the
/// folder of the sources. Throws `corrupt` for an invalid text.
ANYACCEL_API std::shared_ptr<OpBuilder> make_described_builder(
    const std::string& text, const std::string& folder, const OpBuilderOptions& options = {});
/// Return the absolute path of the library that load() of such a builder, or of a builder from a
/// file, opened. Empty before load(), and for other builders.
ANYACCEL_API std::string library_of(const OpBuilder& builder);

}  // namespace anyaccel::sdk
