#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>

#include "anyaccel/accelerator.h"
#include "anyaccel/llm/embed.h"
#include "anyaccel/llm/tokenizer.h"
#include "base/untrusted_text.h"
#include "llm/checkpoint/checkpoint.h"
#include "llm/checkpoint/config_json.h"
#include "llm/embed/bert.h"
#include "llm/embed/pooling.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

using Ids = std::vector<std::int64_t>;

/// Maximum number of tokens per text: the value in sentence-transformers' files, otherwise the
/// smaller of the model's and the tokenizer's limits.
std::int64_t read_max_tokens(const SentenceConfig& sentence, const BertConfig& config) {
  std::int64_t limit = config.max_positions;
  const auto path = sentence.encoder / "tokenizer_config.json";
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) {
    const Json object = read_json_object(path);
    const JsonReader in(object, path.string());
    for (const char* key : {"truncation_side", "padding_side"}) {
      const std::string side = in.string(key).value_or("right");
      if (side != "right") unsupported_config(in.source(), key, side, "\"right\"");
    }
    // Tokenizers without a limit set this key to 1e30.
    const double own = in.number("model_max_length").value_or(static_cast<double>(limit));
    if (own < 1) corrupt_config(in.source() + ": model_max_length is below 1");
    if (own < static_cast<double>(limit)) limit = static_cast<std::int64_t>(own);
  }
  if (!sentence.max_tokens) return limit;
  if (*sentence.max_tokens > config.max_positions) {
    corrupt_config((sentence.encoder / "sentence_bert_config.json").string() + ": max_seq_length " +
                   std::to_string(*sentence.max_tokens) + " is more than the model's " +
                   std::to_string(config.max_positions) + " positions");
  }
  return *sentence.max_tokens;
}

}  // namespace

struct ANYACCEL_LOCAL Embedder::State {
  SentenceConfig sentence;
  BertConfig config;
  std::int64_t max_tokens;
  Tokenizer tokenizer;
  BertWeights weights;

  Ids encode(const std::string& text) const;
  at::Tensor embed(const std::vector<const Ids*>& texts) const;
};

/// Encodes a text, truncated to max_tokens.
Ids Embedder::State::encode(const std::string& text) const {
  const std::string whole = sentence.prompt + text;
  Ids ids =
      tokenizer.encode_up_to(sentence.lowercase ? lowercase(utf8_lossy(whole)) : whole, max_tokens);
  if (ids.empty()) {
    throw Error(ErrorCode::invalid_argument, "Embedder::embed",
                {.what = "a text has no tokens",
                 .got = quoted_text(text, 60),
                 .want = "one token or more"});
  }
  const auto unknown = std::find_if(ids.begin(), ids.end(),
                                    [&](auto id) { return id < 0 || id >= config.vocab_size; });
  if (unknown != ids.end()) {
    throw Error(ErrorCode::invalid_argument, "Embedder::embed",
                {.what = "the tokenizer returned an id outside the model's vocabulary",
                 .got = std::to_string(*unknown),
                 .want = "0 to " + std::to_string(config.vocab_size - 1)});
  }
  return ids;
}

/// Creates a batch of texts, which must be sorted by descending length.
BertBatch make_batch(const std::vector<const Ids*>& texts, c10::Device device) {
  const auto long_tensor = [](std::size_t size) {
    return at::empty({static_cast<std::int64_t>(size)}, at::TensorOptions().dtype(c10::kLong));
  };
  const auto data = [](const at::Tensor& tensor) {
    return tensor.mutable_data_ptr<std::int64_t>();
  };
  const std::size_t time = texts.front()->size();
  std::size_t tokens = 0;
  for (const Ids* text : texts) tokens += text->size();
  BertBatch batch{.texts = static_cast<std::int64_t>(texts.size()),
                  .time = static_cast<std::int64_t>(time),
                  .lengths = {},
                  .ids = long_tensor(tokens),
                  .positions = long_tensor(tokens),
                  .padding = {}};
  const at::Tensor places = long_tensor(tokens), rows = long_tensor(texts.size() * time).zero_();
  std::int64_t row = 0;
  for (std::size_t text = 0; text < texts.size(); ++text) {
    const Ids& from = *texts[text];
    batch.lengths.push_back(static_cast<std::int64_t>(from.size()));
    for (std::size_t i = 0; i < from.size(); ++i, ++row) {
      data(batch.ids)[row] = from[i];
      data(batch.positions)[row] = static_cast<std::int64_t>(i);
      data(places)[row] = static_cast<std::int64_t>(text * time + i);
      data(rows)[text * time + i] = row;
    }
  }
  if (texts.back()->size() != time) {
    at::Tensor counted =
        at::zeros({batch.texts, batch.time}, at::TensorOptions().dtype(c10::kBool));
    counted.view(-1).index_fill_(0, places, true);
    batch.padding = BertPadding{
        .places = places.to(device), .rows = rows.to(device), .counted = counted.to(device)};
  }
  batch.ids = batch.ids.to(device);
  batch.positions = batch.positions.to(device);
  return batch;
}

/// Computes the embeddings of texts and returns them as a host tensor. The texts must be sorted by
/// descending length.
at::Tensor Embedder::State::embed(const std::vector<const Ids*>& texts) const {
  const BertBatch batch = make_batch(texts, get_accelerator().torch_device());
  const auto counted = batch.padding ? std::optional(batch.padding->counted) : std::nullopt;
  const at::Tensor vectors = pool(bert_forward(weights, config, batch), counted, sentence.pooling);
  return (sentence.normalize ? normalize_rows(vectors) : vectors).to(c10::Device(c10::kCPU));
}

Embedder Embedder::load(const std::filesystem::path& folder, c10::ScalarType dtype) {
  SentenceConfig sentence = read_sentence_config(folder);
  const Checkpoint checkpoint(sentence.encoder);
  const BertConfig config = read_bert_config(sentence.encoder);
  const std::int64_t max_tokens = read_max_tokens(sentence, config);
  Tokenizer tokenizer = Tokenizer::load(sentence.encoder);
  return Embedder(
      std::make_shared<const State>(State{.sentence = std::move(sentence),
                                          .config = config,
                                          .max_tokens = max_tokens,
                                          .tokenizer = std::move(tokenizer),
                                          .weights = load_bert(config, checkpoint, dtype)}));
}

at::Tensor Embedder::embed(const std::vector<std::string>& texts,
                           const EmbedOptions& options) const {
  if (options.batch_size < 1) {
    throw Error(ErrorCode::invalid_argument, "Embedder::embed",
                {.what = "the batch size is too small",
                 .got = std::to_string(options.batch_size),
                 .want = "1 or more"});
  }
  const c10::AutoGradMode no_gradient(false);
  std::vector<Ids> ids;
  ids.reserve(texts.size());
  for (const std::string& text : texts) ids.push_back(state_->encode(text));
  std::vector<std::int64_t> order(texts.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto length = [&](std::int64_t text) { return ids[static_cast<std::size_t>(text)].size(); };
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return length(a) > length(b); });
  at::Tensor out = at::empty({static_cast<std::int64_t>(texts.size()), dimension()},
                             at::TensorOptions().dtype(c10::kFloat));
  for (std::size_t begin = 0; begin < order.size();) {
    const std::size_t size =
        std::min(order.size() - begin, static_cast<std::size_t>(options.batch_size));
    std::vector<const Ids*> batch;
    for (std::size_t i = begin; i < begin + size; ++i)
      batch.push_back(&ids[static_cast<std::size_t>(order[i])]);
    const at::Tensor rows = at::from_blob(order.data() + begin, {static_cast<std::int64_t>(size)},
                                          at::TensorOptions().dtype(c10::kLong));
    out.index_copy_(0, rows, state_->embed(batch));
    begin += size;
  }
  return out;
}

std::int64_t Embedder::dimension() const noexcept {
  return state_->config.hidden_size * static_cast<std::int64_t>(state_->sentence.pooling.size());
}

std::int64_t Embedder::max_tokens() const noexcept { return state_->max_tokens; }

}  // namespace anyaccel::llm
