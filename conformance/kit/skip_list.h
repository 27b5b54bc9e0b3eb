// What is known not to pass, and why.
#pragma once

#include <string>
#include <vector>

#include "anyaccel/conformance/kit.h"

namespace anyaccel::conformance {

/// What this build knows of a backend: src/backends/<name>/conformance.txt.
std::vector<ListedCase> built_in_skip_list(const std::string& backend);
/// That and the files of the options. Throws `not_found` for a file that cannot be read.
std::vector<ListedCase> skip_list_of(const std::string& backend, const Options& options);
/// The last line that names a case, or null.
const ListedCase* find_listed(const std::vector<ListedCase>& list, const std::string& full_name) noexcept;

}  // namespace anyaccel::conformance
