// The tensors of a Hugging Face folder: model.safetensors, or shards behind model.safetensors.index.json.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "llm/checkpoint/safetensors.h"

namespace anyaccel::llm {

/// Reads tensors by name, whatever file they are in. Thread-safe once made.
class Checkpoint {
 public:
  /// Throws `not_found` when the folder or its weights are missing, `corrupt` or `io` as SafetensorsFile does.
  explicit Checkpoint(const std::filesystem::path& folder);

  bool contains(const std::string& name) const { return where_.count(name) != 0; }
  /// A host tensor of the file's dtype. `corrupt` naming tensor, got and want when its shape is another one or it is
  /// missing.
  at::Tensor tensor(const std::string& name, at::IntArrayRef shape) const;
  /// The same, and `corrupt` for a dtype that is not floating-point.
  at::Tensor floats(const std::string& name, at::IntArrayRef shape) const;
  /// The same whatever its shape is.
  at::Tensor tensor(const std::string& name) const;
  /// Of the first file.
  const std::map<std::string, std::string>& metadata() const { return files_.front()->metadata(); }

 private:
  std::filesystem::path folder_;
  std::vector<std::shared_ptr<SafetensorsFile>> files_;
  std::map<std::string, SafetensorsFile*> where_;
};

}  // namespace anyaccel::llm
