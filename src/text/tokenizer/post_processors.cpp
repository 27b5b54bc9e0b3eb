// Adds special tokens around the ids of a text. Pairs of texts are not supported.
#include "base/untrusted_text.h"
#include "text/tokenizer/pipeline.h"

namespace anyaccel::llm {

namespace {

/// Ids before and after a text's ids.
class Template final : public PostProcessor {
 public:
  /// Appends ids, or a placeholder for the ids of the text itself. Returns false if there are too
  /// many.
  bool add(std::optional<TokenIds> ids) {
    count_ += ids ? ids->size() : 0;
    parts_.push_back(std::move(ids));
    return count_ <= kMaxFrame;
  }
  void process(TokenIds& ids) const override {
    TokenIds out;
    for (const auto& part : parts_) {
      const TokenIds& from = part ? *part : ids;
      out.insert(out.end(), from.begin(), from.end());
    }
    ids = std::move(out);
  }

 private:
  static constexpr std::size_t kMaxFrame = 4096;
  std::vector<std::optional<TokenIds>> parts_;
  std::size_t count_ = 0;
};

class ProcessorSequence final : public PostProcessor {
 public:
  explicit ProcessorSequence(const TokenizerNode& node) {
    for (const TokenizerNode& child : node.steps("processors"))
      steps_.push_back(read_post_processor(child));
  }
  void process(TokenIds& ids) const override {
    for (const auto& step : steps_) step->process(ids);
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> steps_;
};

std::optional<TokenIds> special_ids(const TokenizerNode& node, const std::string& name) {
  const TokenizerNode tokens = node.child("special_tokens");
  const TokenizerNode token = tokens.child(name.c_str());
  const SortedJson* ids = token.array("ids");
  if (!ids) token.corrupt("missing \"ids\"");
  TokenIds out;
  for (const SortedJson& id : *ids) {
    if (!id.is_number_integer() || id.get<double>() < 0 ||
        id.get<double>() > static_cast<double>(kMaxTokenId)) {
      token.corrupt("a token id is out of range");
    }
    out.push_back(id.get<std::int64_t>());
  }
  return out;
}

std::unique_ptr<PostProcessor> read_template(const TokenizerNode& node) {
  auto out = std::make_unique<Template>();
  bool has_text = false;
  for (const TokenizerNode& part : node.children("single")) {
    if (part.has("SpecialToken")) {
      if (!out->add(special_ids(node, part.child("SpecialToken").required_string("id"))))
        part.unsupported("a template with too many tokens");
    } else if (part.has("Sequence")) {
      if (has_text) part.unsupported("a template that contains its text twice");
      out->add(std::nullopt);
      has_text = true;
    } else {
      part.unsupported("a template part that is neither Sequence nor SpecialToken");
    }
  }
  return out;
}

/// BertProcessing and RobertaProcessing: ["[CLS]", id], text, ["[SEP]", id].
std::unique_ptr<PostProcessor> read_frame(const TokenizerNode& node) {
  const auto id_of = [&](const char* key) {
    const SortedJson* pair = node.array(key);
    if (!pair || pair->size() != 2 || !(*pair)[1].is_number_unsigned() ||
        (*pair)[1].get<std::uint64_t>() > static_cast<std::uint64_t>(kMaxTokenId)) {
      node.corrupt(std::string(key) + " is not a pair of token and id");
    }
    return TokenIds{(*pair)[1].get<std::int64_t>()};
  };
  auto out = std::make_unique<Template>();
  out->add(id_of("cls"));
  out->add(std::nullopt);
  out->add(id_of("sep"));
  return out;
}

}  // namespace

std::unique_ptr<PostProcessor> read_post_processor(const TokenizerNode& node) {
  const std::string type = node.type();
  if (type == "Sequence") return std::make_unique<ProcessorSequence>(node);
  if (type == "TemplateProcessing") return read_template(node);
  if (type == "BertProcessing" || type == "RobertaProcessing") return read_frame(node);
  if (type == "ByteLevel") {  // affects only offsets, which we do not compute
    auto same = std::make_unique<Template>();
    same->add(std::nullopt);
    return same;
  }
  node.unsupported("post-processor " + quoted_text(type));
}

}  // namespace anyaccel::llm
