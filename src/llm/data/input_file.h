// Reads training data from a file or a pipe, as lines or as blocks, with bounded memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace anyaccel::llm {

/// A file that is read from beginning to end. Not thread-safe.
class InputFile {
 public:
  /// Default for the maximum length of a line in bytes.
  static constexpr std::size_t kMaxLine = std::size_t{16} << 20;

  struct Line {
    std::string_view text;   ///< without the line break; valid until the next call
    std::size_t number = 0;  ///< 1 for the first line
    /// The line is longer than the limit; `text` contains only its beginning.
    bool too_long = false;
  };

  /// Opens a regular file or a pipe. Throws `not_found` or `io`.
  explicit InputFile(std::filesystem::path path, std::size_t max_line = kMaxLine);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  /// Returns up to `bytes` of the next bytes, without consuming them. Throws `io`.
  std::string_view peek(std::size_t bytes);
  /// Returns the next line, or nullopt at the end of the file. Throws `io`.
  std::optional<Line> next_line();
  /// Returns the next `bytes` bytes, shortened to the last line break among them, or nullopt at the
  /// end of the file. A block without a line break ends before an incomplete UTF-8 character.
  std::optional<std::string> next_block(std::size_t bytes);

 private:
  /// Reads more bytes. Returns false at the end of the file.
  bool fill();
  std::string_view unread() const { return std::string_view(buffer_).substr(begin_); }

  std::filesystem::path path_;
  std::size_t max_line_;
  int descriptor_;
  std::string buffer_;
  std::size_t begin_ = 0;  ///< first unconsumed byte in `buffer_`
  std::size_t number_ = 0;
  bool end_ = false;
};

}  // namespace anyaccel::llm
