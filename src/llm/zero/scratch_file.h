// A temporary file for the optimizer's state.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "anyaccel/ops/async_io.h"

namespace anyaccel::llm {

/// A file that only this process can access. It is removed from its folder as soon as it is open,
/// so the system frees its space even if the process is killed. All bytes are initially 0. Not
/// thread-safe.
class ScratchFile {
 public:
  /// Creates the folder if necessary, and a file of `bytes` bytes, and reserves its space. Throws
  /// `io`, naming the folder, if the folder is not writable or lacks the space.
  ScratchFile(std::filesystem::path folder, std::int64_t bytes);
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  /// Start to read or write a tensor. The transfer bypasses the page cache if the file system
  /// allows it, so data does not count as memory of this process.
  ops::AsyncIORequest start_read(const at::Tensor& tensor, std::int64_t offset);
  ops::AsyncIORequest start_write(const at::Tensor& tensor, std::int64_t offset);
  /// Wait for a request. Errors name the folder.
  void wait(ops::AsyncIORequest& request) const;

 private:
  [[noreturn]] void fail(const char* what, int error) const;
  void reserve(std::int64_t bytes) const;
  /// Calls a function, and replaces the name of the file in its errors.
  template <typename Function>
  auto naming_folder(const Function& function) const;

  std::filesystem::path folder_;
  int descriptor_ = -1;
  std::string path_;  ///< refers to the open file, which has no other name
  ops::AsyncIOHandle handle_;
};

}  // namespace anyaccel::llm
