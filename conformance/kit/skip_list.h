// Skip lists: cases that are known not to pass, with reasons.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/conformance/kit.h"

namespace anyaccel::conformance {

/// Returns the compiled-in skip list of a backend, from src/backends/<name>/conformance.txt.
std::vector<ListedCase> built_in_skip_list(const std::string& backend);
/// Returns the backend's compiled-in skip list followed by the lists in the options' files. Throws
/// an Error with code `not_found` if a file cannot be read.
std::vector<ListedCase> skip_list_of(const std::string& backend, const Options& options);
/// Returns the last entry that matches a case, or null.
const ListedCase* find_listed(const std::vector<ListedCase>& list,
                              const std::string& full_name) noexcept;

}  // namespace anyaccel::conformance
