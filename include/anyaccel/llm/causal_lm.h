// Decoder language models as `torch::nn::Module`, for training. This header is separate because
// LibTorch's module headers are slow to compile. Link `anyaccel::llm`.
//
//     auto model = anyaccel::llm::CausalLM::from_pretrained("SmolLM2-135M");
//     model->train();
//     torch::optim::AdamW optimizer(model->parameters());
//     auto out = model->forward({.ids = ids, .labels = ids, .logits = false});
//     out.loss.backward();
//     optimizer.step();
//     model->save_pretrained("tuned");
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/llm/config.h"
#include "anyaccel/llm/model.h"

namespace anyaccel::llm {

/// Options for creating a CausalLM.
struct CausalLMOptions {
  c10::ScalarType dtype = c10::kFloat;  ///< dtype for weights and computation
  /// 8 or 4: quantize weight matrices as LoadOptions::bits does. They are frozen and are not
  /// parameters, so that only LoRA adapters can be trained (lora.h). 0: do not quantize.
  int bits = 0;
  std::int64_t group_size = 0;  ///< see LoadOptions::group_size
  bool cache = true;            ///< see LoadOptions::cache
};

/// Input of CausalLM's forward pass. All tensors have the shape of `ids`; all except `ids` are
/// optional. Tensors may be on the host or on the accelerator. Masks, positions and sequence ids
/// are read on the host, so keep them there to avoid waiting for the accelerator.
struct CausalLMInput {
  at::Tensor ids = {};  ///< int64 [batch, time], token ids
  /// int64. The expected token at each position, usually a copy of `ids`; -100 excludes a position
  /// from the loss. As in transformers, forward() shifts them: the output at position t
  /// predicts labels[t + 1]. Padded positions and the first token of a sequence are always
  /// excluded.
  at::Tensor labels = {};
  /// Integer or bool; 0 marks padding, which may be on the left or on the right. Padding is
  /// skipped, not computed.
  at::Tensor attention_mask = {};
  /// int64, position of each token in its sequence. Default: the column; for OPT, the number of
  /// real tokens before it, as in transformers. Without `sequence_ids` and padding, a position that
  /// does not follow the previous one starts a new sequence, as in transformers.
  at::Tensor position_ids = {};
  /// int64, for packed rows: a new sequence starts where the id changes within a row. Tokens attend
  /// only to themselves and earlier tokens of their own sequence. The default of `position_ids` is
  /// then the position in the sequence.
  at::Tensor sequence_ids = {};
  /// Return logits. If false, compute the loss in chunks of rows, without memory for all logits.
  bool logits = true;
  /// Divide the sum of the losses by this number, as transformers does for gradient accumulation.
  /// 0: divide by this batch's CausalLMImpl::label_count().
  double num_items_in_batch = 0;
};

/// Result of CausalLM's forward pass.
struct CausalLMOutput {
  at::Tensor loss;  ///< 0-d float32, mean cross-entropy; undefined without labels
  /// [batch, time, vocab] in the model's dtype; 0 at padded positions. Undefined if
  /// CausalLMInput::logits is false.
  at::Tensor logits;
};

struct CausalState;

/// A decoder language model on the current device of `get_accelerator()`, for every family that
/// `Model` supports. Differentiable in its parameters.
///
/// Parameters have the names and shapes of transformers' `named_parameters()`: GPT-2's matrices are
/// transposed, Phi-3's are fused, the experts of a layer share a tensor, and a tied head is listed
/// once. They share memory with the weights of model(). Change them in place; a parameter whose
/// memory was replaced (`set_data`, torch::load()) is copied back by the next forward().
///
/// In training mode, the dropout rates in config.json apply (attention, residual, embedding).
/// Random numbers come from the accelerator's default generator. Not thread-safe.
class ANYACCEL_API CausalLMImpl : public torch::nn::Module {
 public:
  /// Read a Hugging Face folder, as Model::load() does, with the same errors. The model is in
  /// evaluation mode, as in transformers; call train() before training.
  explicit CausalLMImpl(const std::filesystem::path& folder, const CausalLMOptions& options = {});
  /// Create a model with random weights, as Model::create() does. Only a Llama configuration can be
  /// saved, because other families cannot be written back to a config.json.
  CausalLMImpl(const ModelConfig& config, std::uint64_t seed, const CausalLMOptions& options = {});
  /// Create a model with random weights from the config.json in a folder of any family. Throws the
  /// same errors as ModelConfig::read().
  CausalLMImpl(const std::filesystem::path& folder, std::uint64_t seed,
               const CausalLMOptions& options);
  ~CausalLMImpl() override;

  /// Compute the loss and the logits of a batch.
  ///
  /// Padding is skipped. Sequences of different lengths are concatenated, and their attention is
  /// computed one sequence at a time.
  ///
  /// Throws `invalid_argument`, naming the tensor, for shapes that differ from `ids`, dtypes that
  /// are not integers, ids outside the vocabulary (if `ids` is on the host), sequences longer than
  /// the context, and padding in the middle of a sequence.
  CausalLMOutput forward(const CausalLMInput& input);

  /// Number of labels in a batch that contribute to the loss: labels of -100, of padding and of the
  /// first token of a sequence do not. For gradient accumulation, add the counts of the
  /// micro-batches and pass the sum as CausalLMInput::num_items_in_batch. Waits for the accelerator
  /// if a tensor is in its memory.
  static std::int64_t label_count(const CausalLMInput& input);

  /// Recompute each layer during the backward pass instead of storing its activations (Chen et al.,
  /// "Training Deep Nets with Sublinear Memory Cost", 2016, arXiv:1604.06174). Gradients are
  /// bitwise equal to those without recomputation, because dropout repeats its random numbers.
  void gradient_checkpointing(bool enable);
  /// Return whether layers are recomputed during the backward pass.
  bool gradient_checkpointing() const noexcept;

  /// A model that shares the weights and adapters, for generate() during training. It sees later
  /// updates.
  [[nodiscard]] Model model() const;
  /// Configuration of the model.
  const ModelConfig& config() const noexcept;
  /// Dtype for weights and computation.
  c10::ScalarType dtype() const noexcept;

  /// Write config.json, generation_config.json if the model was read with one, and
  /// model.safetensors in the model's dtype. transformers and Model::load() can read the folder.
  /// Existing files are replaced only after the new ones are complete. Tokenizer files are not
  /// written. Merge adapters first, or save them with save_adapter().
  ///
  /// Throws `unsupported` for quantized weights and for a model that was created from a
  /// configuration of a family other than Llama, `invalid_state` if adapters are not merged, and
  /// `io` if writing fails.
  void save_pretrained(const std::filesystem::path& folder) const;
  /// Tensors under their names in model.safetensors, which differ from those of the parameters only
  /// for experts. They share the parameters' memory.
  std::vector<std::pair<std::string, at::Tensor>> checkpoint_tensors() const;
  /// Contents of config.json, with `dtype` set to this model's. Throws `unsupported` as
  /// save_pretrained() does.
  std::string config_json() const;

  /// Convert the parameters. Throws `unsupported` for a device other than the accelerator's current
  /// one, and for quantized weights.
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;
  void pretty_print(std::ostream& stream) const override;

  /// Internal.
  CausalState& state() const noexcept { return *state_; }

 private:
  explicit CausalLMImpl(std::unique_ptr<CausalState> state);
  std::unique_ptr<CausalState> state_;
};

/// Holder of a CausalLMImpl. Copies share the model.
class ANYACCEL_API CausalLM : public torch::nn::ModuleHolder<CausalLMImpl> {
 public:
  using torch::nn::ModuleHolder<CausalLMImpl>::ModuleHolder;
  using Impl = CausalLMImpl;

  /// Read a Hugging Face folder: config.json and model.safetensors (one file or shards). Throws the
  /// same errors as Model::load().
  [[nodiscard]] static CausalLM from_pretrained(const std::filesystem::path& folder,
                                                const CausalLMOptions& options = {}) {
    return CausalLM(std::make_shared<CausalLMImpl>(folder, options));
  }
  /// Create a model with random weights. The same `seed` gives the same weights on every
  /// accelerator.
  [[nodiscard]] static CausalLM from_config(const ModelConfig& config, std::uint64_t seed,
                                            const CausalLMOptions& options = {}) {
    return CausalLM(std::make_shared<CausalLMImpl>(config, seed, options));
  }
  /// Create a model with random weights from the config.json in a folder.
  [[nodiscard]] static CausalLM from_config(const std::filesystem::path& folder, std::uint64_t seed,
                                            const CausalLMOptions& options = {}) {
    return CausalLM(std::make_shared<CausalLMImpl>(folder, seed, options));
  }
};

}  // namespace anyaccel::llm
