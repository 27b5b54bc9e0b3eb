// Small pre-tokenizers.
#include "base/untrusted_text.h"
#include "text/tokenizer/factories.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/unicode.h"

namespace anyaccel::llm {

namespace {

/// Splits at the matches that a function finds.
template <typename F>
class Splitter final : public PreTokenizer {
 public:
  Splitter(F find, SplitBehavior behavior) : find_(std::move(find)), behavior_(behavior) {}
  void split(Piece piece, Pieces& out) const override {
    split_piece(piece, find_(piece.text), behavior_, out);
  }

 private:
  F find_;
  SplitBehavior behavior_;
};

template <typename F>
std::unique_ptr<PreTokenizer> splitter(F find, SplitBehavior behavior) {
  return std::make_unique<Splitter<F>>(std::move(find), behavior);
}

std::unique_ptr<PreTokenizer> at_characters(bool (*is_match)(char32_t), SplitBehavior behavior) {
  return splitter([is_match](std::string_view text) { return find_characters(text, is_match); },
                  behavior);
}

class SplitterSequence final : public PreTokenizer {
 public:
  void add(std::unique_ptr<PreTokenizer> step) { steps_.push_back(std::move(step)); }
  void split(Piece piece, Pieces& out) const override {
    Pieces pieces(out.limit());
    pieces.add(std::move(piece));
    for (const auto& step : steps_) {
      Pieces next(out.limit());
      for (Piece& one : pieces.all()) step->split(std::move(one), next);
      pieces = std::move(next);
    }
    for (Piece& one : pieces.all()) out.add(std::move(one));
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

/// Finds runs of word characters and runs of other characters, \w+|[^\w\s]+. Whitespace is marked
/// as a match, so that it is removed.
std::vector<Stretch> find_words(std::string_view text) {
  std::vector<Stretch> out;
  int last = 0;
  std::size_t at = 0;
  for_each_character(text, [&](char32_t c, std::string_view bytes) {
    const int kind = is_word(c) ? 1 : is_whitespace(c) ? 2 : 3;
    if (kind == last) {
      out.back().end += bytes.size();
    } else {
      out.push_back({at, at + bytes.size(), kind == 2});
    }
    last = kind;
    at += bytes.size();
  });
  return out;
}

std::unique_ptr<PreTokenizer> split_step(const TokenizerNode& node) {
  return splitter(
      [pattern = Pattern::read(node), invert = node.flag("invert", false)](std::string_view text) {
        auto stretches = pattern.find(text);
        if (invert) {
          for (Stretch& stretch : stretches) stretch.match = !stretch.match;
        }
        return stretches;
      },
      read_behavior(node));
}

}  // namespace

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const TokenizerNode& node) {
  using enum SplitBehavior;
  const std::string type = node.type();
  if (type == "Sequence") {
    auto sequence = std::make_unique<SplitterSequence>();
    for (const TokenizerNode& child : node.steps("pretokenizers"))
      sequence->add(read_pre_tokenizer(child));
    return sequence;
  }
  if (type == "ByteLevel") return make_byte_level_splitter(node);
  if (type == "Metaspace") return make_metaspace_splitter(node);
  if (type == "Split") return split_step(node);
  if (type == "Whitespace") return splitter(find_words, removed);
  if (type == "WhitespaceSplit") return at_characters(is_whitespace, removed);
  if (type == "Punctuation") return at_characters(is_punctuation, read_behavior(node, isolated));
  if (type == "Digits")
    return at_characters(is_numeric, node.flag("individual_digits", false) ? isolated : contiguous);
  if (type == "CharDelimiterSplit") {
    return splitter([pattern = Pattern(node.character("delimiter"))](
                        std::string_view text) { return pattern.find(text); },
                    removed);
  }
  if (type == "BertPreTokenizer") {
    auto sequence = std::make_unique<SplitterSequence>();
    sequence->add(at_characters(is_whitespace, removed));
    sequence->add(at_characters(is_punctuation, isolated));
    return sequence;
  }
  node.unsupported("pre-tokenizer " + quoted_text(type));
}

}  // namespace anyaccel::llm
