// Asynchronous file I/O for tensors: reads and writes run while the program computes, and bypass
// the page cache if the file system supports it.
//
//     anyaccel::ops::AsyncIOHandle handle;
//     handle.async_pwrite(weights, "/data/weights.bin");
//     handle.async_pread(next, "/data/next.bin");
//     compute();
//     handle.wait();
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>

#include "anyaccel/export.h"
#include "anyaccel/ops/pin_memory.h"

namespace anyaccel::ops {

/// A single read or write. Copies refer to the same request. Thread-safe.
class [[nodiscard]] AsyncIORequest {
 public:
  /// Wait until the request is done. The tensor of a read then has the file's content. Throws `io`
  /// for a full or failing disk, or a file that is too short, with the path and offset;
  /// `interrupted` after cancel(); and `invalid_state` after fork().
  ANYACCEL_API void wait();
  /// Return whether the request is done, successfully or not.
  [[nodiscard]] ANYACCEL_API bool done() const;
  /// Drop the blocks that have not been submitted to the system yet. Blocks in flight complete, and
  /// keep their memory until then.
  ANYACCEL_API void cancel();

 private:
  friend class AsyncIOHandle;
  explicit AsyncIORequest(c10::IValue object) : object_(std::move(object)) {}
  c10::IValue object_;
};

/// Reads and writes tensors, with the names, arguments and results of DeepSpeed's aio_handle. All
/// errors are exceptions of type `anyaccel::Error`.
///
/// Any offset, length, memory and dtype is supported. Data that is aligned for the disk is
/// transferred directly between disk and tensor (O_DIRECT). Unaligned data is copied through an
/// aligned buffer. File systems without O_DIRECT use the page cache.
///
/// Writes: a write changes only the bytes of its range, and extends the file at most to the end of
/// that range. Partial pages at the ends of the range are written through the page cache, after the
/// rest. A missing file is created with mode 0600. After a failed write, the content of the range
/// is undefined. Data is not flushed to the disk; call fsync() if you need durability.
///
/// Tensors: a tensor that is not contiguous or not in host memory is transferred through a host
/// copy. A write creates this copy when the function is called, in the order of the current stream,
/// and waits until it is complete. A read copies the result to the tensor on the current stream of
/// the waiting thread. Do not change a host tensor while it is written.
///
/// Memory: tensors are released when their transfer is done, even if wait() is never called.
/// Tensors that are read through a copy or checked by `validate` are kept until a thread waits.
///
/// Order: requests in flight are not ordered. Wait between two requests for the same bytes. Two
/// requests of one process for different bytes of the same page do not conflict.
///
/// Thread-safe; wait() covers requests of all threads. A handle belongs to the process that created
/// it: in a forked child, its functions throw `invalid_state`. The destructor waits for requests in
/// flight.
class ANYACCEL_API AsyncIOHandle {
 public:
  /// Create a handle and its threads.
  ///
  /// - block_size: bytes per system request, up to 1 GiB.
  /// - queue_depth: number of blocks in flight per thread, up to 4096.
  /// - single_submit: submit each block with its own system call.
  /// - overlap_events: start a block as soon as any block is done, instead of waiting for all
  ///   submitted blocks.
  /// - intra_op_parallelism: number of threads that process a request together.
  ///
  /// The environment variable ANYACCEL_AIO_QUEUE selects the system interface. Throws
  /// `invalid_argument`, `unavailable` if the selected interface does not work, and the same errors
  /// as OpBuilder::load().
  explicit AsyncIOHandle(std::int64_t block_size = 1 << 20, std::int64_t queue_depth = 128,
                         bool single_submit = false, bool overlap_events = false,
                         std::int64_t intra_op_parallelism = 1);

  std::int64_t get_block_size() const;
  std::int64_t get_queue_depth() const;
  bool get_single_submit() const;
  bool get_overlap_events() const;
  std::int64_t get_intra_op_parallelism() const;
  /// Alignment in bytes, 512 x intra_op_parallelism as in DeepSpeed. No function requires it.
  std::int64_t get_alignment() const;
  /// System interface in use: the first of "io_uring", "libaio" and "threads" that works.
  std::string get_queue() const;
  /// Explain why this system interface is used.
  std::string get_queue_reason() const;

  /// Read the whole tensor from the file at the offset, wait, and return 0. `validate`: also
  /// compare the result with a plain read, and throw `corrupt` if they differ. Throws `not_found`
  /// or `io` if the file cannot be opened or is too short.
  int read(const at::Tensor& buffer, const std::string& filename, bool validate,
           std::int64_t file_offset = 0);
  /// Write the whole tensor to the file at the offset, wait, and return 0. `validate`: as in
  /// read().
  int write(const at::Tensor& buffer, const std::string& filename, bool validate,
            std::int64_t file_offset = 0);
  /// Read a tensor. With `async`, returns 0 immediately, and wait() reports errors. Without it,
  /// waits for this request and all earlier asynchronous ones, and returns their number.
  std::int64_t pread(const at::Tensor& buffer, const std::string& filename, bool validate,
                     bool async, std::int64_t file_offset = 0);
  /// Write a tensor; `async` and the result are as in pread().
  std::int64_t pwrite(const at::Tensor& buffer, const std::string& filename, bool validate,
                      bool async, std::int64_t file_offset = 0);
  /// pread() with neither `validate` nor `async`.
  std::int64_t sync_pread(const at::Tensor& buffer, const std::string& filename,
                          std::int64_t file_offset = 0);
  /// pwrite() with neither `validate` nor `async`.
  std::int64_t sync_pwrite(const at::Tensor& buffer, const std::string& filename,
                           std::int64_t file_offset = 0);
  /// pread() with `async`, without `validate`.
  std::int64_t async_pread(const at::Tensor& buffer, const std::string& filename,
                           std::int64_t file_offset = 0);
  /// pwrite() with `async`, without `validate`.
  std::int64_t async_pwrite(const at::Tensor& buffer, const std::string& filename,
                            std::int64_t file_offset = 0);
  /// Write to a file that the caller has opened for writing. The caller may close it as soon as the
  /// function returns. The write bypasses the page cache if the file was opened with O_DIRECT.
  std::int64_t async_pwrite(const at::Tensor& buffer, int fd, std::int64_t file_offset = 0);
  /// Wait for all asynchronous requests and return their number. If any failed, throws the first
  /// error after all are done.
  std::int64_t wait();
  /// Cancel all asynchronous requests. See AsyncIORequest::cancel().
  void cancel();
  /// Call wait() and stop the threads, even if wait() throws. Requests from start_read() and
  /// start_write() keep the threads alive until the requests are destroyed. Afterwards all
  /// functions except getters throw `invalid_state`. A second call is a no-op.
  void close();

  /// Start a read and return it as a separate request, which the handle's wait() does not cover.
  [[nodiscard]] AsyncIORequest start_read(const at::Tensor& buffer, const std::string& filename,
                                          std::int64_t file_offset = 0);
  /// Start a write and return it as a separate request, which the handle's wait() does not cover.
  [[nodiscard]] AsyncIORequest start_write(const at::Tensor& buffer, const std::string& filename,
                                           std::int64_t file_offset = 0);

  /// Create a pinned tensor; see PinHandle. Such tensors are transferred without a copy.
  [[nodiscard]] at::Tensor new_cpu_locked_tensor(std::int64_t elements, const at::Tensor& example);
  /// Free a pinned tensor; see PinHandle.
  bool free_cpu_locked_tensor(const at::Tensor& locked);
  /// Return whether a tensor is pinned; see PinHandle.
  [[nodiscard]] bool is_pinned(const at::Tensor& buffer) const;

 private:
  c10::IValue object_;
  PinHandle pins_;
};

}  // namespace anyaccel::ops
