// anyaccel search: finds the passages in a folder that are closest in meaning to a query.
#include "anyaccel/llm/search.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "anyaccel/accelerator.h"
#include "cli/commands/commands.h"

namespace anyaccel::cli {

namespace {

struct SearchArguments {
  std::string model, folder, query, dtype = "fp32";
  std::int64_t top = 5;
  bool json = false;
};

void print_hit(const llm::Passage& passage, double score) {
  char number[32];
  std::snprintf(number, sizeof number, "%.4f", score);
  std::cout << number << "  " << for_output(passage.file.string()) << ':' << passage.line << '\n';
  std::string text = passage.text;
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
    text.replace(at, 1, "\n        ");
  std::cout << "        " << for_output(text) << '\n';
}

void run_search(const SearchArguments& arguments) {
  const auto passages = llm::read_passages(arguments.folder);
  if (passages.empty()) {
    throw Error(ErrorCode::not_found, "search",
                {.what = "no text was found in the folder " + arguments.folder});
  }
  const llm::Embedder embedder = llm::Embedder::load(arguments.model, parse_dtype(arguments.dtype));
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::string> texts;
  for (const llm::Passage& passage : passages) texts.push_back(passage.text);
  const auto hits = llm::nearest(embedder.embed(texts),
                                 embedder.embed({arguments.query}).select(0, 0), arguments.top);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (!arguments.json) {
    for (const llm::SearchHit& hit : hits) print_hit(passages[hit.index], hit.score);
    std::cout << std::flush;
    return;
  }
  nlohmann::ordered_json out = {{"accelerator", get_accelerator().name()},
                                {"query", arguments.query},
                                {"passages", passages.size()},
                                {"seconds", seconds.count()},
                                {"hits", nlohmann::ordered_json::array()}};
  for (const llm::SearchHit& hit : hits) {
    const llm::Passage& passage = passages[hit.index];
    out["hits"].push_back({{"score", hit.score},
                           {"file", passage.file.string()},
                           {"line", passage.line},
                           {"text", passage.text}});
  }
  std::cout << out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
            << std::endl;
}

}  // namespace

void add_search(CLI::App& command, Context&) {
  auto arguments = std::make_shared<SearchArguments>();
  SearchArguments& a = *arguments;
  command.add_option("-m,--model", a.model, "BERT checkpoint folder")->required()->type_name("DIR");
  command
      .add_option("--folder", a.folder,
                  "Folder to search, including subfolders; hidden files are skipped")
      ->required()
      ->type_name("TEXTS");
  command.add_option("-q,--query", a.query, "Text to search for")->required();
  command.add_option("-n,--top", a.top, "Number of passages to print")->capture_default_str();
  command.add_option("--dtype", a.dtype, "Compute type: fp32, bf16 or fp16")->capture_default_str();
  command.add_flag("--json", a.json, "Print one JSON object");
  command.callback([arguments] { run_search(*arguments); });
}

}  // namespace anyaccel::cli
