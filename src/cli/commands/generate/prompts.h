// Reads the prompts of `anyaccel generate`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace anyaccel::cli {

/// Parses the ids of --prompt-ids. Throws `invalid_argument`, quoting the invalid text.
std::vector<std::int64_t> parse_ids(const std::string& text);

/// A line in the --prompts file.
struct Prompt {
  std::size_t line = 0;  ///< 1-based line number
  std::string text;
  std::optional<std::vector<std::int64_t>> ids;  ///< set if the line has ids instead of text
  std::string error;                             ///< why the line is invalid; empty if it is valid
};

/// Reads the non-blank lines of a file ("-": standard input, which works only for a single rank). A
/// line that begins with '{' is a JSON object with "prompt" or "prompt_ids"; any other line is a
/// plain-text prompt.
std::vector<Prompt> read_prompts(const std::string& file, int ranks);

}  // namespace anyaccel::cli
