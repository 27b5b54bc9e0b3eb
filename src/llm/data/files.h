// Folders of text files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace anyaccel::llm {

/// Most bytes of one file of text.
inline constexpr std::size_t kMaxData = std::size_t{16} << 30;

/// Regular files below a folder, sorted, so that every machine sees them in one order; hidden ones are left out, and those
/// that `wanted`, if given, says no to. Throws `io`.
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder,
                                               bool (*wanted)(const std::filesystem::path&) = nullptr);

/// A file's content; nothing, and a word in the log, when it has zero bytes and so is no text. Throws `not_found` or `io`.
std::optional<std::string> read_text(const std::filesystem::path& file);

}  // namespace anyaccel::llm
