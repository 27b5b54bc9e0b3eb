// Selects the model by its type, and reads vocabularies that map tokens to ids.
#include "base/untrusted_text.h"
#include "text/tokenizer/factories.h"

namespace anyaccel::llm {

void read_vocabulary(const TokenizerNode& node, Vocabulary& vocabulary) {
  const SortedJson* words = node.object("vocab");
  if (!words) node.corrupt("the model has no vocab");
  const SortedJsonReader in(*words, node.source() + ", vocab");
  for (const auto& [word, value] : words->items())
    vocabulary.add(word, in.required_integer(word, 0, kMaxTokenId));
}

std::unique_ptr<TokenModel> read_model(const TokenizerNode& node) {
  // Old files have no type. Hugging Face tokenizers tries the types in this order.
  const std::string type = node.has("type") ? node.type() : node.has("merges") ? "BPE" : "(none)";
  if (type == "BPE") return make_bpe(node);
  if (type == "WordPiece") return make_word_piece(node);
  if (type == "WordLevel") return make_word_level(node);
  if (type == "Unigram") return make_unigram(node);
  node.unsupported("model " + quoted_text(type));
}

}  // namespace anyaccel::llm
