// Linux native AIO (io_submit() and others), the predecessor of io_uring. The system calls are made
// directly, so libaio is not needed.
#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "anyaccel/error.h"
#include "io/async/queue.h"

namespace anyaccel::ops::aio {

namespace {

class LibaioQueue final : public Queue {
 public:
  explicit LibaioQueue(unsigned depth) : commands_(depth), events_(depth) {
    if (::syscall(__NR_io_setup, depth, &context_) != 0)
      throw Error(ErrorCode::unavailable, "libaio",
                  {.what = std::string("io_setup: ") + std::strerror(errno) +
                           (errno == EAGAIN ? " (fs.aio-max-nr is exhausted)" : "")});
    for (auto& command : commands_) free_.push_back(&command);
    batch_.reserve(depth);
    refused_.reserve(depth);
  }
  ~LibaioQueue() override { ::syscall(__NR_io_destroy, context_); }
  const char* name() const noexcept override { return "libaio"; }
  std::size_t submit(Transfer* const* transfers, std::size_t count) override;
  void reap(std::size_t least, std::vector<Transfer*>& done) override;

 private:
  aio_context_t context_ = 0;
  std::vector<iocb> commands_;
  std::vector<iocb*> free_;
  std::vector<iocb*> batch_;
  std::vector<io_event> events_;
  std::vector<Transfer*> refused_;
};

std::size_t LibaioQueue::submit(Transfer* const* transfers, std::size_t count) {
  batch_.clear();
  for (std::size_t i = 0; i < count && !free_.empty(); ++i) {
    auto* command = free_.back();
    free_.pop_back();
    *command = {};
    command->aio_lio_opcode = transfers[i]->write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
    command->aio_fildes = static_cast<std::uint32_t>(transfers[i]->file);
    command->aio_buf = reinterpret_cast<std::uint64_t>(transfers[i]->memory);
    command->aio_nbytes = transfers[i]->bytes;
    command->aio_offset = transfers[i]->offset;
    command->aio_data = reinterpret_cast<std::uint64_t>(transfers[i]);
    batch_.push_back(command);
  }
  if (batch_.empty()) return 0;
  const auto taken =
      ::syscall(__NR_io_submit, context_, static_cast<long>(batch_.size()), batch_.data());
  const int error = errno;
  std::size_t started = taken > 0 ? static_cast<std::size_t>(taken) : 0;
  for (std::size_t i = started; i < batch_.size(); ++i) free_.push_back(batch_[i]);
  if (taken < 0 && error != EAGAIN && error != EINTR) {
    transfers[0]->result = -error;
    refused_.push_back(transfers[0]);
    started = 1;
  }
  return started;
}

void LibaioQueue::reap(std::size_t least, std::vector<Transfer*>& done) {
  std::size_t found = refused_.size();
  done.insert(done.end(), refused_.begin(), refused_.end());
  refused_.clear();
  while (found < least && free_.size() < commands_.size()) {
    const auto under_way = commands_.size() - free_.size();
    const auto missing = std::min(least - found, under_way);
    const auto got = ::syscall(__NR_io_getevents, context_, static_cast<long>(missing),
                               static_cast<long>(under_way), events_.data(), nullptr);
    if (got < 0 && errno != EINTR)
      throw Error(ErrorCode::internal, "libaio",
                  {.what = std::string("io_getevents: ") + std::strerror(errno)});
    for (long i = 0; i < got; ++i) {
      auto* transfer = reinterpret_cast<Transfer*>(events_[static_cast<std::size_t>(i)].data);
      transfer->result = events_[static_cast<std::size_t>(i)].res;
      free_.push_back(reinterpret_cast<iocb*>(events_[static_cast<std::size_t>(i)].obj));
      done.push_back(transfer);
    }
    if (got > 0) found += static_cast<std::size_t>(got);
  }
}

}  // namespace

std::unique_ptr<Queue> make_libaio_queue(unsigned depth) {
  return std::make_unique<LibaioQueue>(depth);
}

}  // namespace anyaccel::ops::aio
