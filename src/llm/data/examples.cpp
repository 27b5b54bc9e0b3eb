#include "llm/data/examples.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <exception>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "llm/data/assistant_tokens.h"
#include "llm/data/files.h"
#include "llm/data/input_file.h"
#include "llm/data/record.h"
#include "text/chat/template_files.h"

namespace anyaccel::llm {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kTextBlock = std::size_t{8} << 20;
/// Lines that are encoded at the same time, and their maximum total size.
constexpr std::size_t kBatchLines = 256;
constexpr std::size_t kBatchBytes = std::size_t{4} << 20;
constexpr std::size_t kReasons = 5;

/// Returns the id of the end-of-text token that the tokenizer's files name, or `otherwise`.
std::int64_t end_of_text(const fs::path& model, const Tokenizer& tokenizer,
                         std::int64_t otherwise) {
  const std::string text = chat::special_token(model, "eos_token");
  if (text.empty()) return otherwise;
  const auto ids = tokenizer.encode(text, /*add_special_tokens=*/false);
  return ids.size() == 1 ? ids[0] : otherwise;
}

/// A line to encode, and its result.
struct Job {
  std::string text;
  std::size_t line;
  ExampleEncoder::Example example = {};
  bool chat = false;
  std::string reason = {};  ///< why the line is rejected
  std::exception_ptr error = {};
};

void encode(const ExampleEncoder& encoder, const std::string& place, Job& job) {
  try {
    const Record record = parse_record(job.text, place);
    job.chat = record.chat;
    job.example = record.chat ? encoder.chat(record.content) : encoder.text(record.content);
  } catch (const Error& error) {
    const std::string reason = error.what();
    // Errors of a template or a tokenizer do not name the line.
    const bool named = reason.find(place) != std::string::npos;
    job.reason = named ? reason : "[load_data] " + place + ": " + reason;
    job.error = std::current_exception();
    if (!named)
      job.error = std::make_exception_ptr(Error(
          error.code() == ErrorCode::unsupported ? ErrorCode::unsupported : ErrorCode::corrupt,
          "load_data", {.what = place + ": " + reason}));
  }
}

class Reader {
 public:
  Reader(const ExampleEncoder& encoder, bool skip, ExampleStore& store)
      : encoder_(encoder), skip_(skip), store_(store) {}

  void read(const fs::path& path) {
    InputFile file(path);
    const std::string_view beginning = file.peek(64 << 10);
    check_text(path, beginning);
    ++counts_.files;
    const std::string extension = path.extension().string();
    if (extension == ".jsonl" || extension == ".ndjson" || begins_with_record(beginning))
      read_lines(file);
    else
      read_text(file, extension == ".json");
  }

  DataCounts counts_;

 private:
  static void check_text(const fs::path& path, std::string_view beginning) {
    const char* kind = nullptr;
    if (beginning.starts_with("\x1f\x8b") || beginning.starts_with("\x28\xb5\x2f\xfd") ||
        beginning.starts_with("PK\x03\x04"))
      kind = "a compressed file";
    else if (beginning.starts_with("PAR1"))
      kind = "a Parquet file";
    else if (beginning.find('\0') != std::string_view::npos)
      kind = "a binary file";
    if (kind)
      throw Error(ErrorCode::invalid_argument, "load_data",
                  {.what = "cannot train on " + path.string(),
                   .got = kind,
                   .want = "UTF-8 text or JSON Lines",
                   .hint = "unpack or convert the file first"});
  }

  void read_text(InputFile& file, bool json) {
    if (json) {
      throw Error(ErrorCode::invalid_argument, "load_data",
                  {.what = file.path().string() + " is not JSON Lines",
                   .got = "a JSON file whose first line is not a record",
                   .want = R"(one object per line, such as {"text": "..."})",
                   .hint = "for a JSON list, run: jq -c '.[]' FILE > FILE.jsonl"});
    }
    bool begins = true;
    auto block = file.next_block(kTextBlock);
    while (block) {
      auto next = file.next_block(kTextBlock);
      check_text(file.path(), *block);
      const auto example = encoder_.text(*block, begins, !next);
      if (!example.ids.empty()) store_.add(example.ids, example.learned);
      begins = false;
      block = std::move(next);
    }
    ++counts_.texts;
  }

  void read_lines(InputFile& file) {
    std::vector<Job> jobs;
    std::size_t bytes = 0;
    while (const auto line = file.next_line()) {
      if (line->text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      if (line->too_long) {
        finish(file, jobs);
        reject(place(file, line->number) + ": the line is too long",
               "at most " + std::to_string(InputFile::kMaxLine >> 20) + " MiB");
        continue;
      }
      jobs.push_back({std::string(line->text), line->number});
      bytes += line->text.size();
      if (jobs.size() < kBatchLines && bytes < kBatchBytes) continue;
      finish(file, jobs);
      bytes = 0;
    }
    finish(file, jobs);
  }

  static std::string place(const InputFile& file, std::size_t line) {
    return file.path().string() + ":" + std::to_string(line);
  }

  /// Encodes the lines in parallel and adds the examples in order.
  void finish(const InputFile& file, std::vector<Job>& jobs) {
    at::parallel_for(0, static_cast<std::int64_t>(jobs.size()), 8,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t i = begin; i < end; ++i) {
                         Job& job = jobs[static_cast<std::size_t>(i)];
                         encode(encoder_, place(file, job.line), job);
                       }
                     });
    for (Job& job : jobs) {
      if (job.error) {
        if (!skip_) std::rethrow_exception(job.error);
        count(job.reason);
        continue;
      }
      ++(job.chat ? counts_.conversations : counts_.texts);
      store_.add(job.example.ids, job.example.learned);
    }
    jobs.clear();
  }

  void reject(const std::string& what, const std::string& want) {
    const Error error(ErrorCode::corrupt, "load_data", {.what = what, .want = want});
    if (!skip_) throw error;
    count(error.what());
  }

  void count(const std::string& reason) {
    ++counts_.bad_lines;
    if (counts_.bad_reasons.size() < kReasons) counts_.bad_reasons.push_back(reason);
  }

  const ExampleEncoder& encoder_;
  bool skip_;
  ExampleStore& store_;
};

}  // namespace

ExampleEncoder::ExampleEncoder(const fs::path& model, std::int64_t vocab_size, std::int64_t eos)
    : model_(model),
      tokenizer_(Tokenizer::load(model)),
      chat_(ChatTemplate::load(model)),
      vocab_size_(vocab_size),
      eos_(end_of_text(model, tokenizer_, eos)) {}

void ExampleEncoder::check(const std::vector<std::int64_t>& ids) const {
  const auto high = std::find_if(ids.begin(), ids.end(),
                                 [this](std::int64_t id) { return id < 0 || id >= vocab_size_; });
  if (high == ids.end()) return;
  throw Error(ErrorCode::invalid_argument, "load_data",
              {.what = "the tokenizer has a token id outside the model's vocabulary",
               .got = "id " + std::to_string(*high),
               .want = "ids below " + std::to_string(vocab_size_),
               .hint = "use the tokenizer.json that belongs to the model's config.json"});
}

ExampleEncoder::Example ExampleEncoder::text(std::string_view text, bool begins, bool ends) const {
  Example out;
  out.ids = tokenizer_.encode(text, /*add_special_tokens=*/begins);
  if (!ends && eos_ >= 0 && !out.ids.empty() && out.ids.back() == eos_) out.ids.pop_back();
  if (ends && eos_ >= 0 && (out.ids.empty() || out.ids.back() != eos_)) out.ids.push_back(eos_);
  check(out.ids);
  out.learned = {{0, static_cast<std::uint32_t>(out.ids.size())}};
  return out;
}

ExampleEncoder::Example ExampleEncoder::chat(std::string_view variables) const {
  if (!chat_) {
    throw Error(ErrorCode::unsupported, "load_data",
                {.what = model_.string() + " has no chat template, but conversations require one",
                 .want = "chat_template.jinja, or \"chat_template\" in tokenizer_config.json",
                 .hint = "add a template, or train on lines with \"text\""});
  }
  const TrainingText rendered = chat_->apply_for_training(variables);
  Example out;
  // The text contains the special tokens.
  out.ids = tokenizer_.encode(rendered.text, /*add_special_tokens=*/false);
  check(out.ids);
  out.learned = tokens_of(tokenizer_, rendered.text, out.ids, rendered.assistant);
  if (out.learned.empty()) {
    throw Error(ErrorCode::invalid_argument, "load_data",
                {.what = "the conversation has no text from the assistant",
                 .want = "a message with the role \"assistant\""});
  }
  return out;
}

DataCounts read_examples(const std::vector<fs::path>& data, const ExampleEncoder& encoder,
                         bool skip_bad_lines, ExampleStore& store) {
  Reader reader(encoder, skip_bad_lines, store);
  for (const fs::path& path : data) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      reader.read(path);
      continue;
    }
    for (const fs::path& file : files_below(path)) reader.read(file);
  }
  return std::move(reader.counts_);
}

}  // namespace anyaccel::llm
