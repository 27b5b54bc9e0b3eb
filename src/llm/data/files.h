// Finds and reads text files in folders.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace anyaccel::llm {

/// Maximum size of a text file in bytes.
inline constexpr std::size_t kMaxData = std::size_t{16} << 30;

/// Returns the regular files in a folder and its subfolders, sorted, so that the order is the same
/// on every machine. Excludes hidden files, and files that `wanted`, if given, rejects. Throws
/// `io`.
std::vector<std::filesystem::path> files_below(
    const std::filesystem::path& folder, bool (*wanted)(const std::filesystem::path&) = nullptr);

/// Returns a file's content. If it contains NUL bytes and is therefore not text, logs a message
/// and returns nullopt. Throws `not_found` or `io`.
std::optional<std::string> read_text(const std::filesystem::path& file);

}  // namespace anyaccel::llm
