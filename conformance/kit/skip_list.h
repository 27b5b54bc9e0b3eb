// Lists of cases that are known not to pass, with reasons.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/conformance/kit.h"

namespace anyaccel::conformance {

/// The list that is compiled in for a backend, from src/backends/<name>/conformance.txt.
std::vector<ListedCase> built_in_skip_list(const std::string& backend);
/// The compiled-in list followed by the files of the options. Throws `not_found` if a file cannot
/// be read.
std::vector<ListedCase> skip_list_of(const std::string& backend, const Options& options);
/// The last entry that matches a case, or null.
const ListedCase* find_listed(const std::vector<ListedCase>& list,
                              const std::string& full_name) noexcept;

}  // namespace anyaccel::conformance
