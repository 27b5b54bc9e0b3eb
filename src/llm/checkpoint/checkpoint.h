// The tensors of a Hugging Face folder: model.safetensors, or shards behind
// model.safetensors.index.json.
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
  /// Throws `not_found` if the folder or its weights are missing, and `corrupt` or `io` as
  /// SafetensorsFile does.
  explicit Checkpoint(const std::filesystem::path& folder);

  bool contains(const std::string& name) const { return where_.count(name) != 0; }
  /// Returns a host tensor of the file's dtype. Throws `corrupt`, naming the tensor and both
  /// shapes, if it is missing or has another shape.
  at::Tensor tensor(const std::string& name, at::IntArrayRef shape) const;
  /// Like tensor(), but throws `corrupt` for a dtype that is not floating-point.
  at::Tensor floats(const std::string& name, at::IntArrayRef shape) const;
  /// Returns the tensor without checking its shape.
  at::Tensor tensor(const std::string& name) const;
  /// Of the first file.
  const std::map<std::string, std::string>& metadata() const { return files_.front()->metadata(); }

 private:
  std::filesystem::path folder_;
  std::vector<std::shared_ptr<SafetensorsFile>> files_;
  std::map<std::string, SafetensorsFile*> where_;
};

}  // namespace anyaccel::llm
