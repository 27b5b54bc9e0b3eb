// Files and tensors: reads and writes that go on while the program does, past the page cache where
// the file system lets them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>

#include "anyaccel/export.h"
#include "anyaccel/ops/pin_memory.h"

namespace anyaccel::ops {

/// One read or write that was started by itself. Copies are the same request. Thread-safe.
class [[nodiscard]] AsyncIORequest {
 public:
  /// Returns when it is done; reads are in the tensor then. Throws `io` (full disk, failing disk, a
  /// file that ended before the range did: the message has path and place), `interrupted` after
  /// cancel(), `invalid_state` after fork().
  ANYACCEL_API void wait();
  [[nodiscard]] ANYACCEL_API bool done() const;
  /// Blocks that the system has not begun are given up; those under way end by themselves, and
  /// until then memory is kept.
  ANYACCEL_API void cancel();

 private:
  friend class AsyncIOHandle;
  explicit AsyncIORequest(c10::IValue object) : object_(std::move(object)) {}
  c10::IValue object_;
};

/// DeepSpeed's aio_handle, with the same names, arguments and results, except that what goes wrong
/// is an `anyaccel::Error`.
///
/// Any offset, length, memory and dtype is right. What is aligned for the disk goes directly
/// between it and the tensor (O_DIRECT); other memory goes through an aligned copy of a block, and
/// the ends of a write that fill no whole page go through the page cache, after the rest. A write
/// changes the bytes of its range and no others, and makes a file longer only to the range's end; a
/// file that is not there is made (mode 0600). After a failed write the content of its range is not
/// known. File systems without O_DIRECT go through the page cache. Nothing is synced: that is
/// fsync()'s work.
///
/// Tensors that are not contiguous, or not in host memory, go through a host copy: what is written
/// is taken in the order of the current stream, and waited for, when the call is made; what is read
/// arrives in the current stream of the thread that waits. Do not change a host tensor that is
/// being written. Memory is kept until its transfer is done, and then let go of, awaited or not;
/// only what is read through a copy, and what `validate` compares, is kept until it is waited for.
/// Requests under way have no order among themselves: wait between two that touch the same bytes.
/// Two that touch the same page but no same byte are right, in one process.
///
/// Thread-safe; wait() counts what all threads began. A handle belongs to the process that made it:
/// after fork() its calls are `invalid_state` in the child. Its destruction waits for what is under
/// way.
class ANYACCEL_API AsyncIOHandle {
 public:
  /// block_size: bytes moved by one request to the system, up to 1 GiB. queue_depth: blocks under
  /// way in each thread, up to 4096. single_submit: each block is a system call of its own.
  /// overlap_events: a new block starts when any is done, not when all that were started are.
  /// intra_op_parallelism: threads among which one request is divided. ANYACCEL_AIO_QUEUE chooses
  /// how the system is asked. Throws `invalid_argument`, `unavailable` where what was chosen does
  /// not work, and what OpBuilder::load() throws.
  explicit AsyncIOHandle(std::int64_t block_size = 1 << 20, std::int64_t queue_depth = 128,
                         bool single_submit = false, bool overlap_events = false,
                         std::int64_t intra_op_parallelism = 1);

  std::int64_t get_block_size() const;
  std::int64_t get_queue_depth() const;
  bool get_single_submit() const;
  bool get_overlap_events() const;
  std::int64_t get_intra_op_parallelism() const;
  /// 512 x intra_op_parallelism, as DeepSpeed's; nothing here needs it.
  std::int64_t get_alignment() const;
  /// "io_uring", "libaio" or "threads": the first that works here, and why that one.
  std::string get_queue() const;
  std::string get_queue_reason() const;

  /// Reads the whole tensor from the file at the offset, waits, and returns 0. `validate` compares
  /// with a plain read and throws `corrupt` where it differs. `not_found` or `io` where the file
  /// cannot be opened or is too short.
  int read(const at::Tensor& buffer, const std::string& filename, bool validate,
           std::int64_t file_offset = 0);
  int write(const at::Tensor& buffer, const std::string& filename, bool validate,
            std::int64_t file_offset = 0);
  /// With async the result is 0 at once, and wait() says how it went. Otherwise they also wait for
  /// all that was begun before, and return how many were finished, this one too.
  std::int64_t pread(const at::Tensor& buffer, const std::string& filename, bool validate,
                     bool async, std::int64_t file_offset = 0);
  std::int64_t pwrite(const at::Tensor& buffer, const std::string& filename, bool validate,
                      bool async, std::int64_t file_offset = 0);
  std::int64_t sync_pread(const at::Tensor& buffer, const std::string& filename,
                          std::int64_t file_offset = 0);
  std::int64_t sync_pwrite(const at::Tensor& buffer, const std::string& filename,
                           std::int64_t file_offset = 0);
  std::int64_t async_pread(const at::Tensor& buffer, const std::string& filename,
                           std::int64_t file_offset = 0);
  std::int64_t async_pwrite(const at::Tensor& buffer, const std::string& filename,
                            std::int64_t file_offset = 0);
  /// To a file that the caller opened for writing, and may close at once; direct when it was opened
  /// with O_DIRECT.
  std::int64_t async_pwrite(const at::Tensor& buffer, int fd, std::int64_t file_offset = 0);
  /// Finishes all that was begun with async, and returns how many that were; throws the first
  /// failure after all are done.
  std::int64_t wait();
  /// As AsyncIORequest::cancel(), for all that was begun with async.
  void cancel();
  /// wait(), and the end of the threads, whatever it throws; requests of start_read() and
  /// start_write() keep them until those go. Afterwards all but getters are `invalid_state`. A
  /// second time it does nothing.
  void close();

  /// Requests that are waited for by themselves; wait() above does not count them.
  [[nodiscard]] AsyncIORequest start_read(const at::Tensor& buffer, const std::string& filename,
                                          std::int64_t file_offset = 0);
  [[nodiscard]] AsyncIORequest start_write(const at::Tensor& buffer, const std::string& filename,
                                           std::int64_t file_offset = 0);

  /// As PinHandle's. Transfers to and from such tensors need no copy.
  [[nodiscard]] at::Tensor new_cpu_locked_tensor(std::int64_t elements, const at::Tensor& example);
  bool free_cpu_locked_tensor(const at::Tensor& locked);
  [[nodiscard]] bool is_pinned(const at::Tensor& buffer) const;

 private:
  c10::IValue object_;
  PinHandle pins_;
};

}  // namespace anyaccel::ops
