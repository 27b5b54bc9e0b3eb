// anyaccel tokenize: converts text to token ids, line by line, and back.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "anyaccel/error.h"
#include "anyaccel/llm/tokenizer.h"
#include "base/untrusted_text.h"
#include "cli/commands/commands.h"
#include "cli/commands/input_lines.h"

namespace anyaccel::cli {

namespace {

struct TokenizeArguments {
  std::string model, file, text;
  bool decode = false;
  bool json = false;
  bool no_special_tokens = false;
};

using Ids = std::vector<std::int64_t>;

/// Parses the ids of one line: a JSON array, or numbers separated by spaces.
Ids ids_of_line(const std::string& line, std::size_t number) {
  const bool array = line.find('[') != std::string::npos;
  std::string list = array ? line : "[";
  if (!array) {
    std::istringstream words(line);
    for (std::string word; words >> word;) list += (list.size() > 1 ? "," : "") + word;
    list += "]";
  }
  const auto parsed = nlohmann::json::parse(list, nullptr, false);
  Ids ids;
  bool good = parsed.is_array();
  for (std::size_t i = 0; good && i < parsed.size(); ++i) {
    good = parsed[i].is_number_integer();
    if (good) ids.push_back(parsed[i].get<std::int64_t>());
  }
  if (good) return ids;
  throw Error(ErrorCode::invalid_argument, "tokenize",
              {.what = "line " + std::to_string(number) + " is not a list of ids",
               .got = quoted_text(line),
               .want = "token ids, such as [1, 2, 3] or 1 2 3"});
}

void print_text(const std::string& text, bool json) {
  if (json) {
    std::cout << nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
              << '\n';
  } else {
    std::cout << text << '\n';
  }
}

void print_ids(const Ids& ids, bool json) {
  std::string line;
  for (const std::int64_t id : ids)
    line += (line.empty() ? "" : json ? ", " : " ") + std::to_string(id);
  std::cout << (json ? "[" + line + "]" : line) << '\n';
}

void run_tokenize(const TokenizeArguments& arguments) {
  const llm::Tokenizer tokenizer = llm::Tokenizer::load(arguments.model);
  std::size_t number = 0;
  const auto take = [&](const std::string& line) {
    ++number;
    if (arguments.decode) {
      print_text(tokenizer.decode(ids_of_line(line, number), !arguments.no_special_tokens),
                 arguments.json);
    } else {
      print_ids(tokenizer.encode(line, !arguments.no_special_tokens), arguments.json);
    }
  };
  for_each_input("tokenize", arguments.text, arguments.file, take);
  std::cout << std::flush;
}

}  // namespace

void add_tokenize(CLI::App& command, Context&) {
  auto arguments = std::make_shared<TokenizeArguments>();
  TokenizeArguments& a = *arguments;
  command.add_option("-m,--model", a.model, "Folder with a tokenizer.json")
      ->required()
      ->type_name("DIR");
  auto* source = command.add_option_group("input")->require_option(1);
  source->add_option("--file", a.file, "File with one text per line (-: standard input)")
      ->type_name("FILE");
  source->add_option("--text", a.text, "Text to tokenize");
  command.add_flag("--decode", a.decode, "Convert ids, such as [1, 2] or 1 2, to text");
  command.add_flag("--no-special-tokens", a.no_special_tokens,
                   "Do not add special tokens; with --decode, print them instead of removing them");
  command.add_flag("--json", a.json,
                   "Print ids as a JSON array per line, and text as a JSON string");
  command.callback([arguments] { run_tokenize(*arguments); });
}

}  // namespace anyaccel::cli
