#include "llm/train/ranks.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <new>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/fnv1a.h"

namespace anyaccel::llm {

BatchShare share_of_batch(std::int64_t batch, int rank, int size) {
  if (batch < size) {
    throw Error(ErrorCode::invalid_argument, "train",
                {.what = "option batch-size is out of range: it counts the sequences of all ranks",
                 .got = std::to_string(batch),
                 .want = std::to_string(size) + " or more, one sequence per rank"});
  }
  const std::int64_t part = batch / size;
  const std::int64_t larger = batch % size;  // number of ranks that get one more sequence
  BatchShare share;
  share.begin = rank * part + std::min<std::int64_t>(rank, larger);
  share.count = part + (rank < larger ? 1 : 0);
  if (larger != 0)
    share.weight =
        static_cast<double>(share.count) * static_cast<double>(size) / static_cast<double>(batch);
  return share;
}

Ranks::Ranks() {
  if (started_ranks() > 1) group_.emplace(comm::init_process_group());
}

std::string Ranks::from_first(std::string text) {
  if (!group_) return text;
  const auto bytes = at::TensorOptions().dtype(at::kByte);
  const auto length =
      at::tensor(static_cast<std::int64_t>(text.size()), at::TensorOptions().dtype(at::kLong));
  group_->broadcast(length, 0);
  if (!first()) text.resize(static_cast<std::size_t>(length.item<std::int64_t>()));
  if (!text.empty())
    group_->broadcast(at::from_blob(text.data(), {static_cast<std::int64_t>(text.size())}, bytes),
                      0);
  return text;
}

void Ranks::from_first(const std::vector<at::Tensor>& tensors) {
  if (!group_) return;
  const c10::AutoGradMode no_gradient(false);
  for (const auto& tensor : tensors) group_->broadcast(tensor.detach(), 0);
}

StepNews Ranks::exchange(double loss, const BatchShare& share, double seconds, bool stop) {
  if (!group_) return {loss, seconds, stop};
  const auto numbers =
      at::tensor({loss * share.weight / size(), first() ? seconds : 0.0, stop ? 1.0 : 0.0},
                 at::TensorOptions().dtype(at::kDouble));
  group_->all_reduce(numbers);
  const auto* sums = numbers.const_data_ptr<double>();
  return {sums[0], sums[1], sums[2] > 0};
}

void Ranks::check_same_data(std::uint64_t fingerprint, const std::string& source) {
  if (!group_) return;
  const auto number =
      at::tensor(static_cast<std::int64_t>(fingerprint), at::TensorOptions().dtype(at::kLong));
  group_->broadcast(number, 0);
  if (static_cast<std::uint64_t>(number.item<std::int64_t>()) == fingerprint) return;
  throw Error(ErrorCode::invalid_argument, "train",
              {.what = "the data of rank " + std::to_string(rank()) +
                       " differ from those of rank 0: " + source,
               .hint = "use the same files on every host"});
}

bool Ranks::all_have(const std::vector<at::Tensor>& tensors) {
  if (!group_) return true;
  const c10::AutoGradMode no_gradient(false);
  std::uint64_t digest = kFnv1aStart;
  for (const auto& tensor : tensors) {
    const auto host = tensor.detach().to(at::kCPU).contiguous();
    digest = fnv1a(digest, {static_cast<const char*>(host.const_data_ptr()), host.nbytes()});
  }
  // The maximum of the complements is the complement of the minimum. All digests are equal if the
  // maximum and the minimum are equal.
  const auto number = static_cast<std::int64_t>(digest);
  const auto both = at::tensor({number, ~number}, at::TensorOptions().dtype(at::kLong));
  group_->all_reduce(both, comm::ReduceOp::max);
  const auto* most = both.const_data_ptr<std::int64_t>();
  return most[0] == ~most[1];
}

void Ranks::together(const std::function<void()>& function) {
  if (!group_) return function();
  // Fixed size, so that one all-gather suffices. Byte 0 tells whether the rank failed, byte 1 is
  // the error's code, and the text follows.
  constexpr std::size_t kBytes = 1024;
  std::string mine(kBytes, '\0');
  std::exception_ptr failure;
  try {
    function();
  } catch (const std::exception& error) {
    failure = std::current_exception();
    const auto* known = dynamic_cast<const Error*>(&error);
    mine[0] = 1;
    mine[1] = static_cast<char>(known ? known->code() : ErrorCode::internal);
    const std::string text = error.what();
    text.copy(mine.data() + 2, kBytes - 3);
  }
  const at::Tensor all = group_->all_gather(at::from_blob(
      mine.data(), {1, static_cast<std::int64_t>(kBytes)}, at::TensorOptions().dtype(at::kByte)));
  if (failure) std::rethrow_exception(failure);
  for (int rank = 0; rank < size(); ++rank) {
    const char* text =
        static_cast<const char*>(all.const_data_ptr()) + static_cast<std::size_t>(rank) * kBytes;
    if (text[0] != 0)
      throw Error(static_cast<ErrorCode>(text[1]), "train",
                  {.what = "rank " + std::to_string(rank) + " failed: " + (text + 2)});
  }
}

void naming_rank(const std::function<void()>& function) {
  if (started_ranks() <= 1) return function();
  const std::string rank = "rank " + env("RANK").value_or("?");
  try {
    function();
  } catch (const Error& error) {
    throw Error(error.code(), rank, {.what = error.what()});
  } catch (const c10::Error& error) {
    throw Error(ErrorCode::internal, rank, {.what = error.what_without_backtrace()});
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::out_of_memory, rank, {.what = "out of host memory"});
  }
}

void Ranks::barrier() {
  if (group_) group_->barrier();
}

}  // namespace anyaccel::llm
