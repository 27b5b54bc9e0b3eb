// The prompts of `anyaccel generate`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace anyaccel::cli {

/// Ids as --prompt-ids has them. Throws `invalid_argument` naming the word that is none.
std::vector<std::int64_t> parse_ids(const std::string& text);

/// A line of --prompts.
struct Prompt {
  std::size_t line = 0;  ///< from 1 on
  std::string text;
  std::optional<std::vector<std::int64_t>> ids;  ///< where the line has them in place of a text
  std::string error;                             ///< why it is no prompt; empty: it is one
};

/// The lines of a file ("-": standard input, which only one rank can read), blank ones left out. A
/// line that begins with
/// '{' is a JSON object with "prompt" or "prompt_ids", and every other line a text.
std::vector<Prompt> read_prompts(const std::string& file, int ranks);

}  // namespace anyaccel::cli
