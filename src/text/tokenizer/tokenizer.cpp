#include "anyaccel/llm/tokenizer.h"

#include <algorithm>

#include "anyaccel/error.h"
#include "text/tokenizer/data.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

constexpr std::int64_t kMaxDecodedId =
    (std::int64_t{1} << 32) - 1;                        // limit in the `tokenizers` library
constexpr std::size_t kMaxText = std::size_t{1} << 30;  // ICU and Oniguruma use int for sizes

template <typename T>
std::unique_ptr<T> read_step(const TokenizerNode& root, const char* key,
                             std::unique_ptr<T> (*read)(const TokenizerNode&)) {
  return root.object(key) ? read(root.child(key)) : nullptr;
}

TextLimit limit_of(const std::vector<std::string>& parts) {
  std::size_t bytes = 0;
  for (const std::string& part : parts) bytes += part.size();
  return TextLimit::of(bytes);
}

}  // namespace

Tokenizer::Data::Data(const TokenizerNode& root)
    : normalizer(read_step(root, "normalizer", read_normalizer)),
      pre_tokenizer(read_step(root, "pre_tokenizer", read_pre_tokenizer)),
      model(read_model(root.child("model"))),
      post_processor(read_step(root, "post_processor", read_post_processor)),
      decoder(read_step(root, "decoder", read_decoder)),
      added(root, normalizer.get()) {}

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer.json";
  const SortedJson root = read_sorted_json_object(path, kLargeJson);
  return Tokenizer(std::make_shared<Data>(TokenizerNode(root, path.string())));
}

Tokenizer Tokenizer::bytes() {
  const SortedJson root = parse_sorted_json_object(bytes_json(), "bytes_json()");
  return Tokenizer(std::make_shared<Data>(TokenizerNode(root, "bytes_json()")));
}

void Tokenizer::Data::encode_plain(std::string_view text, std::size_t lead, TextLimit& limit,
                                   TokenIds& ids) const {
  if (text.empty()) return;
  if (!pre_tokenizer) {
    model->tokenize(text, ids);
    return;
  }
  Pieces pieces(limit);
  pre_tokenizer->split({std::string(text), lead}, pieces);
  for (const Piece& piece : pieces.all()) model->tokenize(piece.text, ids);
  limit = limit.after(pieces.bytes());
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text, bool add_special_tokens) const {
  if (text.size() > kMaxText) {
    throw Error(ErrorCode::invalid_argument, "Tokenizer::encode",
                {.what = "the text is too long",
                 .got = std::to_string(text.size()) + " bytes",
                 .want = "at most " + std::to_string(kMaxText) + " bytes",
                 .hint = "encode the text in parts"});
  }
  TokenIds ids;
  const std::string valid = utf8_lossy(text);
  TextLimit limit = TextLimit::of(valid.size()), limit_of_pieces = limit;
  for (const AddedSplit& outer : data_->added.split(valid, false)) {
    if (outer.id >= 0) {
      ids.push_back(outer.id);
      continue;
    }
    NormalizedText part =
        NormalizedText::part(outer.text, outer.text.data() == valid.data(), limit);
    if (data_->normalizer) data_->normalizer->normalize(part);
    limit.check(part.text.size());
    for (const AddedSplit& inner : data_->added.split(part.text, true)) {
      if (inner.id >= 0) {
        ids.push_back(inner.id);
      } else {
        const auto at = static_cast<std::size_t>(inner.text.data() - part.text.data());
        data_->encode_plain(inner.text, part.lead - std::min(part.lead, at), limit_of_pieces, ids);
      }
    }
    limit = limit.after(part.text.size());
  }
  if (add_special_tokens && data_->post_processor) data_->post_processor->process(ids);
  return ids;
}

std::vector<std::int64_t> Tokenizer::encode_up_to(std::string_view text,
                                                  std::int64_t max_tokens) const {
  TokenIds frame;
  if (data_->post_processor) data_->post_processor->process(frame);
  const auto framing = static_cast<std::int64_t>(frame.size());
  if (max_tokens < framing) {
    throw Error(ErrorCode::invalid_argument, "Tokenizer::encode_up_to",
                {.what = "max_tokens is too small for the special tokens around a text",
                 .got = std::to_string(max_tokens),
                 .want = "at least " + std::to_string(framing)});
  }
  TokenIds ids = encode(text, false);
  if (static_cast<std::int64_t>(ids.size()) > max_tokens - framing) {
    ids.resize(static_cast<std::size_t>(max_tokens - framing));
  }
  if (data_->post_processor) data_->post_processor->process(ids);
  return ids;
}

std::optional<std::string> Tokenizer::Data::token(std::int64_t id, bool specials) const {
  if (const AddedToken* one = added.find(id))
    return one->special && !specials ? std::nullopt : std::optional(one->text);
  if (const std::string* word = model->vocabulary().word(id)) return *word;
  // Models may have embedding rows for ids that the tokenizer does not define.
  if (id >= 0 && id <= kMaxDecodedId) return std::nullopt;
  throw Error(ErrorCode::invalid_argument, "Tokenizer::decode",
              {.what = "token id out of range",
               .got = std::to_string(id),
               .want = "0 to " + std::to_string(kMaxDecodedId)});
}

std::string Tokenizer::token_bytes(std::int64_t id) const {
  Decoding text{.parts = {}, .inside = true, .raw = true};
  if (auto token = data_->token(id, false)) text.parts.push_back(std::move(*token));
  if (text.parts.empty()) return "";
  text.limit = limit_of(text.parts);
  if (data_->decoder) {
    data_->decoder->decode(text);
  } else {
    text.parts.front().insert(0, 1, ' ');
  }
  std::string out;
  for (const std::string& part : text.parts) out += part;
  return out;
}

std::string Tokenizer::decode(const std::vector<std::int64_t>& ids,
                              bool skip_special_tokens) const {
  Decoding text;
  for (const std::int64_t id : ids) {
    if (auto token = data_->token(id, !skip_special_tokens))
      text.parts.push_back(std::move(*token));
  }
  text.limit = limit_of(text.parts);
  std::string out;
  if (data_->decoder) data_->decoder->decode(text);
  for (std::size_t i = 0; i < text.parts.size(); ++i) {
    if (i > 0 && !data_->decoder) out += ' ';
    out += text.parts[i];
  }
  return out;
}

std::int64_t Tokenizer::size() const noexcept {
  auto size = static_cast<std::int64_t>(data_->model->vocabulary().size());
  for (const AddedToken& token : data_->added.all())
    size += data_->model->vocabulary().word(token.id) == nullptr;
  return size;
}

}  // namespace anyaccel::llm
