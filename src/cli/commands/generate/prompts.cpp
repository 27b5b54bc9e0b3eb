#include "cli/commands/generate/prompts.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "cli/commands/input_lines.h"

namespace anyaccel::cli {

namespace {

void read_json_prompt(const std::string& line, Prompt& prompt) {
  const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool text = object.is_object() && object.contains("prompt");
  const bool ids = object.is_object() && object.contains("prompt_ids");
  if (object.is_discarded() || text == ids) {
    prompt.error =
        R"(a line that begins with '{' must be a JSON object with "prompt" or "prompt_ids")";
    return;
  }
  try {
    if (text) {
      prompt.text = object["prompt"].get<std::string>();
    } else {
      // Do not use get<std::vector<std::int64_t>>(): converting a number that does not fit in 64
      // bits is undefined behavior.
      const auto& ids_of_line = object["prompt_ids"];
      const bool whole = ids_of_line.is_array() &&
                         std::all_of(ids_of_line.begin(), ids_of_line.end(), [](const auto& id) {
                           return id.is_number_integer() &&
                                  !(id.is_number_unsigned() &&
                                    id.template get<std::uint64_t>() > std::uint64_t{INT64_MAX});
                         });
      if (whole)
        prompt.ids = ids_of_line.get<std::vector<std::int64_t>>();
      else
        prompt.error = "\"prompt_ids\" is not a list of integers";
    }
  } catch (const nlohmann::json::exception&) {
    prompt.error = text ? "\"prompt\" is not a string" : "\"prompt_ids\" is not a list of integers";
  }
}

}  // namespace

std::vector<std::int64_t> parse_ids(const std::string& text) {
  std::vector<std::int64_t> ids;
  std::istringstream in(text);
  std::string word;
  while (in >> word) {
    std::size_t used = 0;
    try {
      ids.push_back(std::stoll(word, &used));
    } catch (const std::exception&) {
      used = 0;
    }
    if (used != word.size()) {
      throw Error(ErrorCode::invalid_argument, "generate",
                  {.what = "--prompt-ids contains a value that is not an integer",
                   .got = quoted_text(word),
                   .want = "token ids, such as \"1 2 3\""});
    }
  }
  if (ids.empty()) {
    throw Error(ErrorCode::invalid_argument, "generate",
                {.what = "--prompt-ids is empty",
                 .got = quoted_text(text),
                 .want = "token ids, such as \"1 2 3\""});
  }
  return ids;
}

std::vector<Prompt> read_prompts(const std::string& file, int ranks) {
  if (file == "-" && ranks > 1) {
    throw Error(ErrorCode::unsupported, "generate",
                {.what = "several ranks cannot read prompts from standard input",
                 .hint = "pass a file that all ranks can read"});
  }
  std::vector<Prompt> prompts;
  std::size_t number = 0;
  for_each_input("generate", "", file, [&](std::string line) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    const auto begin = line.find_first_not_of(" \t");
    if (begin == line.npos) return;
    Prompt prompt{.line = number};
    if (line[begin] == '{') {
      read_json_prompt(line, prompt);
    } else {
      prompt.text = std::move(line);
    }
    prompts.push_back(std::move(prompt));
  });
  return prompts;
}

}  // namespace anyaccel::cli
