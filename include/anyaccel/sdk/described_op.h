// Ops whose description is made at run time, for op builders of another language; builders in C++
// have a file (sdk/op_builder.h).
#pragma once

#include <memory>
#include <string>

#include "anyaccel/export.h"
#include "anyaccel/sdk/op_builder.h"

namespace anyaccel::sdk {

/// As make_op_builder(), from the text of a description itself; its sources lie below `folder`.
/// Throws `corrupt` for the text.
ANYACCEL_API std::shared_ptr<OpBuilder> make_described_builder(
    const std::string& text, const std::string& folder, const OpBuilderOptions& options = {});
/// The library that load() of such a builder, or of one from a file, opened: absolute. Empty
/// before, and for other builders.
ANYACCEL_API std::string library_of(const OpBuilder& builder);

}  // namespace anyaccel::sdk
