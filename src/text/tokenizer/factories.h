// Factory functions for the tokenizer steps that have their own source files.
#pragma once

#include <memory>

#include "text/tokenizer/pipeline.h"

namespace anyaccel::llm {

std::unique_ptr<Normalizer> make_bert_normalizer(const TokenizerNode& node);
std::unique_ptr<Normalizer> make_byte_level_normalizer();
std::unique_ptr<Normalizer> make_precompiled(const TokenizerNode& node);
std::unique_ptr<PreTokenizer> make_byte_level_splitter(const TokenizerNode& node);
std::unique_ptr<PreTokenizer> make_metaspace_splitter(const TokenizerNode& node);
std::unique_ptr<TokenDecoder> make_byte_level_decoder();
std::unique_ptr<TokenDecoder> make_metaspace_decoder(const TokenizerNode& node);
std::unique_ptr<TokenModel> make_bpe(const TokenizerNode& node);
std::unique_ptr<TokenModel> make_word_piece(const TokenizerNode& node);
std::unique_ptr<TokenModel> make_word_level(const TokenizerNode& node);
std::unique_ptr<TokenModel> make_unigram(const TokenizerNode& node);

/// Adds the tokens of the node's "vocab", an object that maps tokens to ids.
void read_vocabulary(const TokenizerNode& node, Vocabulary& vocabulary);

}  // namespace anyaccel::llm
