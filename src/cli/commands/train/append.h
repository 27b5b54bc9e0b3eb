// Appending to log files.
#pragma once

#include <filesystem>
#include <string_view>

namespace anyaccel::cli {

/// Creates a file, and its folder, if they do not exist, and opens it for appending. The caller
/// closes the descriptor. Throws `io`, naming the option and the file.
int open_for_appending(const std::filesystem::path& path, const char* option);

/// Appends bytes with a single write() if possible, so that a killed process leaves only complete
/// records. Returns false if writing failed; errno contains the reason.
bool append_bytes(int descriptor, std::string_view bytes);

}  // namespace anyaccel::cli
