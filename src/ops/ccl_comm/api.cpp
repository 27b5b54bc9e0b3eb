#include <ATen/ops/empty.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "anyaccel/ops/call.h"
#include "anyaccel/ops/ccl_comm.h"

namespace anyaccel::ops {

namespace {

using at::Tensor;

template <typename Signature>
c10::TypedOperatorHandle<Signature> ccl_op(const char* name) {
  return load_op<Signature>("CCLCommBuilder", name);
}

/// First character of the message in which a rank reports whether it can use oneCCL. After kCan,
/// the message contains the rank's process token and, on rank 0, the address; after kCannot, the
/// reason.
constexpr char kCan = '+';
constexpr char kCannot = '-';

/// Returns the scope in which PIDs are unique: the boot id and the PID namespace.
std::string numbering() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code ignored;
  return boot + std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

/// Returns "<PID> <scope> <random number>", which is unique across all machines.
std::string process_token() {
  static const auto random = (std::uint64_t{std::random_device()()} << 32) | std::random_device()();
  return std::to_string(::getpid()) + " " + numbering() + " " + std::to_string(random);
}

std::vector<std::uint8_t> own_word(int rank) {
  std::string out;
  try {
    ccl_op<std::int64_t()>("ccl_comm_address_bytes");
    out = kCan + process_token() + '\n';
    if (rank == 0) {
      const auto address = ccl_op<Tensor()>("ccl_comm_address").call();
      out.append(static_cast<const char*>(address.const_data_ptr()),
                 static_cast<std::size_t>(address.numel()));
    }
  } catch (const std::exception& error) {
    out = kCannot + std::string(error.what());
  }
  return {out.begin(), out.end()};
}

/// Reads a rank's message. Throws `timeout` if the rank does not send it in time.
std::vector<std::uint8_t> word_of(c10d::Store& store, int rank) {
  try {
    return store.get("ccl/" + std::to_string(rank));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw Error(ErrorCode::timeout, "CCLComm",
                {.what = "rank " + std::to_string(rank) +
                         " did not join the group: " + text.substr(0, text.find('\n')),
                 .hint = "see its output"});
  }
}

}  // namespace

CCLComm::CCLComm(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                 std::chrono::milliseconds timeout) {
  if (!store || size < 1 || rank < 0 || rank >= size)
    throw Error(ErrorCode::invalid_argument, "CCLComm",
                {.what = "a group requires a store, a size of at least 1 and a rank below the size",
                 .got = "rank " + std::to_string(rank) + " of " + std::to_string(size)});
  static std::atomic<int> last{0};
  name_ = "anyaccel_ccl_comm_" + std::to_string(++last);
  // Exchange the ranks' status first, because oneCCL would block all ranks if one of them were
  // missing.
  store->set("ccl/" + std::to_string(rank), own_word(rank));
  std::string first;
  std::set<std::string> processes;
  std::vector<std::int64_t> near, near_processes;
  for (int other = 0; other < size; ++other) {
    const auto bytes = word_of(*store, other);
    const std::string word(bytes.begin(), bytes.end());
    if (word.empty() || word.front() != kCan)
      throw Error(ErrorCode::unavailable, "CCLComm",
                  {.what = "oneCCL cannot be used: rank " + std::to_string(other) + " reports " +
                           (word.empty() ? "nothing" : word.substr(1))});
    const auto end = word.find('\n');
    if (other == 0 && end != std::string::npos) first = word.substr(end + 1);
    if (!processes.insert(word.substr(0, end)).second)
      throw Error(
          ErrorCode::unsupported, "CCLComm",
          {.what = "rank " + std::to_string(other) + " is a thread of another rank's process",
           .want = "one process per rank, which oneCCL requires"});
    std::istringstream token(word.substr(1, end));
    std::int64_t process = 0;
    std::string theirs;
    if (other != rank && token >> process >> theirs && theirs == numbering()) {
      near.push_back(other);
      near_processes.push_back(process);
    }
  }
  const auto address = at::empty({static_cast<std::int64_t>(first.size())}, at::kByte);
  std::memcpy(address.mutable_data_ptr(), first.data(), first.size());
  ccl_op<void(const std::string&, std::int64_t, std::int64_t, const Tensor&, double)>(
      "ccl_comm_init")
      .call(name_, size, rank, address, std::chrono::duration<double>(timeout).count());
  try {
    ccl_op<void(const std::string&, c10::IntArrayRef, c10::IntArrayRef)>("ccl_comm_watch")
        .call(name_, near, near_processes);
  } catch (...) {
    ccl_op<void(const std::string&)>("ccl_comm_close").call(name_);
    throw;
  }
}

CCLComm::~CCLComm() {
  static const auto op = ccl_op<void(const std::string&)>("ccl_comm_close");
  op.call(name_);
}

void CCLComm::all_reduce_(const Tensor& tensor, ReduceOp reduce) {
  static const auto op =
      ccl_op<void(const Tensor&, const std::string&, const std::string&, const std::string&)>(
          "ccl_all_reduce_");
  op.call(tensor, to_string(reduce), name_, "");
}

void CCLComm::reduce_(const Tensor& tensor, std::int64_t destination, ReduceOp reduce) {
  static const auto op =
      ccl_op<void(const Tensor&, std::int64_t, const std::string&, const std::string&)>(
          "ccl_reduce_");
  op.call(tensor, destination, to_string(reduce), name_);
}

void CCLComm::broadcast_(const Tensor& tensor, std::int64_t source) {
  static const auto op =
      ccl_op<void(const Tensor&, std::int64_t, const std::string&)>("ccl_broadcast_");
  op.call(tensor, source, name_);
}

Tensor CCLComm::all_gather(const Tensor& tensor) {
  static const auto op = ccl_op<Tensor(const Tensor&, const std::string&)>("ccl_all_gather");
  return op.call(tensor, name_);
}

Tensor CCLComm::reduce_scatter(const Tensor& tensor, ReduceOp reduce) {
  static const auto op =
      ccl_op<Tensor(const Tensor&, const std::string&, const std::string&)>("ccl_reduce_scatter");
  return op.call(tensor, to_string(reduce), name_);
}

Tensor CCLComm::all_to_all(const Tensor& tensor, const std::vector<std::int64_t>& output_splits,
                           const std::vector<std::int64_t>& input_splits) {
  static const auto op =
      ccl_op<Tensor(const Tensor&, c10::IntArrayRef, c10::IntArrayRef, const std::string&)>(
          "ccl_all_to_all");
  return op.call(tensor, output_splits, input_splits, name_);
}

void CCLComm::barrier() {
  static const auto op = ccl_op<void(const std::string&)>("ccl_barrier");
  op.call(name_);
}

}  // namespace anyaccel::ops
