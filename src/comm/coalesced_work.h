// The work object for operations issued between startCoalescing() and endCoalescing().
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace anyaccel::comm {

/// Completes when all of its work objects have completed. wait() throws the error of the first one
/// that failed.
class CoalescedWork final : public c10d::Work {
 public:
  using Works = std::vector<c10::intrusive_ptr<c10d::Work>>;

  CoalescedWork(int rank, Works works)
      : c10d::Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

  bool isCompleted() override {
    return std::ranges::all_of(works_, [](const auto& work) { return work->isCompleted(); });
  }
  bool isSuccess() const override {
    return std::ranges::all_of(works_, [](const auto& work) { return work->isSuccess(); });
  }
  std::exception_ptr exception() const override {
    for (const auto& work : works_)
      if (auto error = work->exception()) return error;
    return nullptr;
  }
  bool wait(std::chrono::milliseconds timeout) override {
    for (const auto& work : works_) work->wait(timeout);
    return true;
  }
  void synchronize() override {
    for (const auto& work : works_) work->synchronize();
  }
  std::vector<at::Tensor> result() override {
    std::vector<at::Tensor> all;
    for (const auto& work : works_)
      for (auto& tensor : work->result()) all.push_back(tensor);
    return all;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
        c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
    for (const auto& work : works_) futures.push_back(work->getFuture());
    return c10::collectAll(futures);
  }

 private:
  Works works_;
};

}  // namespace anyaccel::comm
