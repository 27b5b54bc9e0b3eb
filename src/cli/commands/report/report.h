// What `anyaccel report` says: one document, printed as JSON or as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace anyaccel::cli {

/// Keys in the order in which they are shown.
using Json = nlohmann::ordered_json;

/// Asks the accelerator, its devices and the operating system. Never throws for what they refuse:
/// that value is null and the reason is added to "problems". Sizes are bytes; a limit that is not
/// set is null.
Json collect_report();

/// Lays the document out in lines of at most `width` columns (words longer than that stay whole).
std::string report_text(const Json& report, std::size_t width);

}  // namespace anyaccel::cli
