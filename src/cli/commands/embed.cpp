// anyaccel embed: computes embeddings of texts.
#include <CLI/CLI.hpp>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "anyaccel/accelerator.h"
#include "anyaccel/llm/embed.h"
#include "anyaccel/llm/npy.h"
#include "cli/commands/commands.h"
#include "cli/commands/input_lines.h"

namespace anyaccel::cli {

namespace {

struct EmbedArguments {
  std::string model, text, file, npy, dtype = "fp32";
  llm::EmbedOptions options;
  bool json = false;
};

/// Returns one row per text.
std::vector<std::vector<float>> values_of(const at::Tensor& vectors) {
  std::vector<std::vector<float>> rows;
  const auto width = vectors.size(1);
  const float* values = vectors.const_data_ptr<float>();
  for (std::int64_t i = 0; i < vectors.size(0); ++i)
    rows.emplace_back(values + i * width, values + (i + 1) * width);
  return rows;
}

void print_rows(const std::vector<std::vector<float>>& rows) {
  std::cout << std::setprecision(std::numeric_limits<float>::max_digits10);
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) std::cout << (i > 0 ? " " : "") << row[i];
    std::cout << '\n';
  }
  std::cout << std::flush;
}

void run_embed(const EmbedArguments& arguments) {
  std::vector<std::string> texts;
  for_each_input("embed", arguments.text, arguments.file,
                 [&](const std::string& text) { texts.push_back(text); });
  const llm::Embedder embedder = llm::Embedder::load(arguments.model, parse_dtype(arguments.dtype));
  const auto begin = std::chrono::steady_clock::now();
  const at::Tensor vectors = embedder.embed(texts, arguments.options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (!arguments.npy.empty()) llm::write_npy(arguments.npy, vectors);
  if (arguments.json) {
    nlohmann::ordered_json out = {{"accelerator", get_accelerator().name()},
                                  {"texts", texts.size()},
                                  {"dimension", embedder.dimension()},
                                  {"max_tokens", embedder.max_tokens()},
                                  {"seconds", seconds.count()}};
    if (arguments.npy.empty()) out["embeddings"] = values_of(vectors);
    std::cout << out.dump() << std::endl;
  } else if (arguments.npy.empty()) {
    print_rows(values_of(vectors));
  }
}

}  // namespace

void add_embed(CLI::App& command, Context&) {
  auto arguments = std::make_shared<EmbedArguments>();
  EmbedArguments& a = *arguments;
  command.add_option("-m,--model", a.model, "BERT checkpoint folder")->required()->type_name("DIR");
  auto* source = command.add_option_group("input")->require_option(1);
  source->add_option("--text", a.text, "Text to embed");
  source->add_option("--file", a.file, "File with one text per line (-: standard input)")
      ->type_name("FILE");
  command
      .add_option(
          "--npy", a.npy,
          "Write the embeddings to this .npy file, one row per text, instead of printing them")
      ->type_name("OUT");
  command.add_option("--batch-size", a.options.batch_size, "Number of texts per batch")
      ->capture_default_str();
  command.add_option("--dtype", a.dtype, "Compute type: fp32, bf16 or fp16")->capture_default_str();
  command.add_flag("--json", a.json, "Print one JSON object");
  command.callback([arguments] { run_embed(*arguments); });
}

}  // namespace anyaccel::cli
