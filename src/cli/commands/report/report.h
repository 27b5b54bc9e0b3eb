// The report that `anyaccel report` prints: one document, as JSON or as text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace anyaccel::cli {

/// JSON that keeps the order of keys.
using Json = nlohmann::ordered_json;

/// Queries the accelerator, its devices and the operating system. If a query fails, its value is
/// null and the reason is added to "problems". Sizes are in bytes. An unset limit is null.
Json collect_report();

/// Formats the document as lines of at most `width` columns. A word that does not fit on a line is
/// not split.
std::string report_text(const Json& report, std::size_t width);

}  // namespace anyaccel::cli
