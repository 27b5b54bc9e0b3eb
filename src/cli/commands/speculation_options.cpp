#include "cli/commands/speculation_options.h"

#include <CLI/CLI.hpp>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"

namespace anyaccel::cli {

namespace {

constexpr const char* kLookup = "prompt-lookup";
constexpr std::int64_t kLookupTokens = 10;
constexpr std::int64_t kDraftTokens = 5;

std::int64_t lookup_tokens(const std::string& way) {
  const std::string name = way.substr(0, way.find(':'));
  const std::string number =
      name == way ? std::to_string(kLookupTokens) : way.substr(name.size() + 1);
  const bool digits =
      number.find_first_not_of("0123456789") == number.npos && !number.empty() && number.size() < 5;
  if (name != kLookup || !digits || std::stoi(number) < 1) {
    throw Error(ErrorCode::invalid_argument, "generate",
                {.what = "unknown method for --speculate",
                 .got = quoted_text(way),
                 .want = "prompt-lookup, or prompt-lookup:N, for example prompt-lookup:10"});
  }
  return std::stoi(number);
}

}  // namespace

void add_speculation_options(CLI::App& command, SpeculationOptions& options) {
  auto* way = command.add_option("--speculate", options.way,
                                 "Speculative decoding: prompt-lookup[:N] drafts up to N tokens "
                                 "(default: 10) that followed an "
                                 "earlier occurrence of the last few tokens");
  way->type_name("METHOD");
  auto* draft =
      command.add_option("--draft-model", options.draft_model,
                         "Folder with a smaller draft model that uses the same tokenizer");
  draft->type_name("DIR")->excludes(way);
  command
      .add_option("--draft-tokens", options.draft_tokens, "Number of tokens per draft (default: 5)")
      ->needs(draft)
      ->check(CLI::PositiveNumber);
}

llm::Speculation ready_speculation(const SpeculationOptions& options, const llm::Model& model,
                                   const llm::Tokenizer* tokenizer) {
  llm::Speculation speculation;
  if (!options.way.empty()) speculation.tokens = lookup_tokens(options.way);
  if (options.draft_model.empty()) return speculation;
  if (tokenizer) {
    llm::check_draft_tokenizer(*tokenizer, llm::Tokenizer::load(options.draft_model));
  }
  speculation.tokens = options.draft_tokens.value_or(kDraftTokens);
  speculation.draft = llm::Model::load(options.draft_model, model.dtype());
  if (!tokenizer && speculation.draft->config().vocab_size != model.config().vocab_size) {
    throw Error(ErrorCode::invalid_argument, "generate",
                {.what = "the draft model has a different vocabulary",
                 .got = std::to_string(speculation.draft->config().vocab_size) + " tokens",
                 .want = std::to_string(model.config().vocab_size) + " tokens"});
  }
  return speculation;
}

}  // namespace anyaccel::cli
