// The op builder of hostcard::axpy, whose source lies in this project's own folder and is built when it is first loaded.
#pragma once

#include <anyaccel/sdk/op_builder.h>

#include <mutex>
#include <string>

namespace hostcard_backend {

class AxpyBuilder final : public anyaccel::sdk::OpBuilder {
 public:
  /// `kernels`: the folder that holds axpy.cpp; where the plugin lies, not where AnyAccel lies.
  explicit AxpyBuilder(std::string kernels) : kernels_(std::move(kernels)) {}

  std::string class_name() const override { return "AxpyBuilder"; }
  std::string name() const override { return "axpy"; }
  /// A source and a compiler are needed. Runs neither.
  anyaccel::Compatibility is_compatible() const noexcept override;
  /// Afterwards torch has hostcard::axpy(Tensor x, Tensor y, float a) -> Tensor, a * x + y. Thread-safe.
  void load() override;

 private:
  std::string kernels_;
};

}  // namespace hostcard_backend
