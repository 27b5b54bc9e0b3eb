// The tensors in a Hugging Face model folder: model.safetensors, or the shards that
// model.safetensors.index.json lists.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "llm/checkpoint/safetensors.h"

namespace anyaccel::llm {

/// Reads tensors by name, from whichever file contains them. Thread-safe after construction.
class Checkpoint {
 public:
  /// Throws `not_found` if the folder or its weights are missing, and the same errors as
  /// SafetensorsFile.
  explicit Checkpoint(const std::filesystem::path& folder);

  bool contains(const std::string& name) const { return where_.count(name) != 0; }
  /// Returns a host tensor with the file's dtype. Throws `corrupt` if the tensor is missing or has
  /// a different shape; the error names the tensor and both shapes.
  at::Tensor tensor(const std::string& name, at::IntArrayRef shape) const;
  /// Like tensor(), but throws `corrupt` for a dtype that is not floating-point.
  at::Tensor floats(const std::string& name, at::IntArrayRef shape) const;
  /// Returns the tensor without checking its shape.
  at::Tensor tensor(const std::string& name) const;
  /// Metadata of the first file.
  const std::map<std::string, std::string>& metadata() const { return files_.front()->metadata(); }

 private:
  std::filesystem::path folder_;
  std::vector<std::shared_ptr<SafetensorsFile>> files_;
  std::map<std::string, SafetensorsFile*> where_;
};

}  // namespace anyaccel::llm
