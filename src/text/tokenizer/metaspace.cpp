// SentencePiece's visible replacement character for spaces, as pre-tokenizer and decoder.
#include "base/untrusted_text.h"
#include "text/tokenizer/factories.h"
#include "text/tokenizer/pattern.h"

namespace anyaccel::llm {

namespace {

enum class Prepend { always, never, first };

struct MetaspaceOptions {
  std::string replacement;
  Prepend prepend = Prepend::always;
  bool split = true;
};

MetaspaceOptions read_options(const TokenizerNode& node) {
  MetaspaceOptions options{.replacement = node.character("replacement"),
                           .split = node.flag("split", true)};
  const std::string scheme = node.string("prepend_scheme").value_or("always");
  if (scheme == "never") {
    options.prepend = Prepend::never;
  } else if (scheme == "first") {
    options.prepend = Prepend::first;
  } else if (scheme != "always") {
    node.unsupported("prepend_scheme " + quoted_text(scheme));
  }
  if (!node.flag("add_prefix_space", true) && options.prepend != Prepend::never) {
    node.corrupt("add_prefix_space conflicts with prepend_scheme");
  }
  return options;
}

class MetaspaceSplitter final : public PreTokenizer {
 public:
  explicit MetaspaceSplitter(const TokenizerNode& node)
      : options_(read_options(node)), space_(std::string(" ")), mark_(options_.replacement) {}
  void split(Piece piece, Pieces& out) const override {
    const bool first = piece.lead > 0;
    const auto spaces = space_.find(piece.text);
    piece.lead = lead_of_replaced(spaces, options_.replacement.size(), first, piece.lead);
    piece.text = Pattern::replace(piece.text, spaces, options_.replacement, out.limit());
    const bool wanted =
        options_.prepend == Prepend::always || (options_.prepend == Prepend::first && first);
    if (wanted && !piece.text.starts_with(options_.replacement)) {
      piece.text.insert(0, options_.replacement);
      if (first) piece.lead += options_.replacement.size();
    }
    if (options_.split) {
      split_piece(piece, mark_.find(piece.text), SplitBehavior::merged_with_next, out);
    } else {
      out.add(std::move(piece));
    }
  }

 private:
  MetaspaceOptions options_;
  Pattern space_, mark_;
};

class MetaspaceDecoder final : public TokenDecoder {
 public:
  explicit MetaspaceDecoder(const TokenizerNode& node)
      : options_(read_options(node)), mark_(options_.replacement) {}
  void decode(Decoding& text) const override {
    bool begin = !text.inside && options_.prepend != Prepend::never;
    for (std::string& token : text.parts) {
      token = mark_.replace(token, begin ? "" : " ", text.limit);
      begin = false;
    }
  }

 private:
  MetaspaceOptions options_;
  Pattern mark_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_metaspace_splitter(const TokenizerNode& node) {
  return std::make_unique<MetaspaceSplitter>(node);
}

std::unique_ptr<TokenDecoder> make_metaspace_decoder(const TokenizerNode& node) {
  return std::make_unique<MetaspaceDecoder>(node);
}

}  // namespace anyaccel::llm
