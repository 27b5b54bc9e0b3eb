// Writes a folder with a small, randomly initialized BERT encoder and a WordPiece tokenizer.
#pragma once

#include <string>

#include "base/file.h"
#include "llm/checkpoint/safetensors.h"
#include "llm/embed/bert.h"
#include "llm/support/host_random.h"
#include "unit/llm/temporary_folder.h"

namespace anyaccel::llm {

inline constexpr const char* kBertConfig =
    R"({"model_type":"bert","vocab_size":10,"hidden_size":12,"intermediate_size":20,"num_hidden_layers":2,
        "num_attention_heads":3,"max_position_embeddings":9})";

inline constexpr const char* kBertTokenizer =
    R"({"added_tokens":[{"id":0,"content":"[PAD]","special":true},{"id":1,"content":"[UNK]","special":true},
        {"id":2,"content":"[CLS]","special":true},{"id":3,"content":"[SEP]","special":true}],
        "normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},
        "post_processor":{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]},
        "model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
        "vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"a":4,"b":5,"c":6,"##a":7,"##b":8,"d":9}}})";

/// Writes config.json, tokenizer.json and the weights. `rename` maps each tensor's name to the
/// stored name.
inline void write_bert(const TemporaryFolder& folder,
                       std::string (*rename)(const std::string&) = nullptr) {
  folder.write("config.json", kBertConfig);
  folder.write("tokenizer.json", kBertTokenizer);
  BertWeights weights =
      make_bert_weights(read_bert_config(folder.path()), c10::kFloat, c10::Device(c10::kCPU));
  HostRandom random(1);
  NamedTensors tensors;
  for (auto& [name, tensor] : bert_tensors(weights)) {
    at::Tensor own = tensor.clone();
    random.fill_normal(own, name.find("LayerNorm.weight") == std::string::npos ? 0.0 : 1.0, 0.4);
    tensors.emplace_back(rename ? rename(name) : name, own);
  }
  AtomicFile file(folder / "model.safetensors");
  write_safetensors(file, tensors, {{"format", "pt"}});
  file.commit();
}

}  // namespace anyaccel::llm
