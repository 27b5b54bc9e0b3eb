// Base class of the host backends that use gloo for the operations they lack.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <utility>
#include <vector>

#include "anyaccel/comm.h"

namespace anyaccel::comm {

/// gloo runs sends, receives and monitored barriers.
class HostBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<std::vector<at::Tensor>>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  HostBackend(c10::intrusive_ptr<c10d::Backend> gloo, const GroupOptions& options)
      : Backend(options.rank, options.size), gloo_(std::move(gloo)) {}

  void setTimeout(std::chrono::milliseconds timeout) override { gloo_->setTimeout(timeout); }
  WorkPtr send(Tensors& tensors, int rank, int tag) override {
    return gloo_->send(tensors, rank, tag);
  }
  WorkPtr recv(Tensors& tensors, int rank, int tag) override {
    return gloo_->recv(tensors, rank, tag);
  }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override {
    return gloo_->recvAnysource(tensors, tag);
  }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all) override {
    gloo_->monitoredBarrier(options, wait_all);
  }

 protected:
  static Tensors flat(const Tensors& parts) {
    Tensors out;
    for (const auto& part : parts) out.push_back(part.reshape({-1}));
    return out;
  }

  const c10::intrusive_ptr<c10d::Backend> gloo_;
};

}  // namespace anyaccel::comm
