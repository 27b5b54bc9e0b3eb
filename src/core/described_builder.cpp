#include "core/described_builder.h"

#include <c10/core/DeviceType.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>

#include "anyaccel/error.h"
#include "base/dynamic_library.h"
#include "base/log.h"
#include "build/key.h"
#include "build/service.h"
#include "core/library_folder.h"

namespace anyaccel {

namespace {

/// LibTorch as this process has it open, wherever it was moved to.
build::Settings own_settings() {
  static const auto prefix =
      library_folder<std::string(c10::DeviceType, bool)>("op builders", &c10::DeviceTypeName).parent_path();
  return build::default_settings(prefix);
}

/// Ops that are open, by description: a library that registers schemas may come once.
class OpenOps {
 public:
  void load(const build::Op& op, const build::Settings& settings) {
    const std::lock_guard lock(mutex_);
    if (open_.count(op.file) != 0) return;
    auto found = build::find_or_build(op, settings);
    log(LogLevel::debug,
        op.description.name + " is " + build::to_string(found.origin) + ": " + found.held.library.string());
    try {
      const DynamicLibrary library(found.held.library.string(), DynamicLibrary::Unload::never);
    } catch (const Error& error) {
      throw Error(ErrorCode::build_failed, "OpBuilder::load",
                  {.what = "the library of " + op.description.name + " cannot be opened",
                   .got = error.what(),
                   .hint = "build it again: anyaccel ops build --force " + op.description.name});
    }
    found.held.use.keep();  // nobody may remove what this process runs
    open_.insert(op.file);
  }

 private:
  std::mutex mutex_;
  std::set<std::filesystem::path> open_;
};

OpenOps& open_ops() {
  static auto* instance = new OpenOps;
  return *instance;
}

class DescribedBuilder final : public sdk::OpBuilder {
 public:
  DescribedBuilder(build::Op op, sdk::OpBuilderOptions options) : op_(std::move(op)), options_(std::move(options)) {}

  std::string class_name() const override { return op_.description.class_name; }
  std::string name() const override { return op_.description.name; }
  Compatibility is_compatible() const noexcept override try {
    return build::check(op_, settings());
  } catch (const std::exception& error) {
    return {.compatible = false, .reason = error.what()};
  }
  void load() override { open_ops().load(op_, settings()); }
  std::vector<std::string> sources() const override {
    std::vector<std::string> out;
    for (const auto& source : op_.description.sources) out.push_back((op_.source_folder() / source.file).string());
    for (const auto& source : op_.description.support)
      out.push_back((build::own_places().ops / "support" / source.file).string());
    return out;
  }
  std::vector<std::string> include_paths() const override {
    std::vector<std::string> out{op_.source_folder().string()};
    for (const auto& folder : op_.description.includes) out.push_back((op_.folder() / folder).string());
    for (const auto& folder : build::own_places().includes) out.push_back(folder.string());
    return out;
  }

 private:
  build::Settings settings() const {
    auto out = own_settings();
    out.compiler = options_.compiler;
    // Prebuilt ones are AnyAccel's.
    out.prebuilt = op_.folder().parent_path() == out.places.ops.lexically_normal();
    return out;
  }
  build::Op op_;
  sdk::OpBuilderOptions options_;
};

const std::vector<build::Op>& all_own_ops() {
  static const auto* instance = [] {
    auto* out = new std::vector<build::Op>;
    try {
      for (const auto& file : build::op_files(build::own_places().ops)) {
        try {
          out->push_back(build::read_op(file));
        } catch (const Error& error) {
          log(LogLevel::warning, std::string("an op is left out: ") + error.what());
        }
      }
    } catch (const Error& error) {
      log(LogLevel::warning, error.what());
    }
    return out;
  }();
  return *instance;
}

}  // namespace

sdk::OpBuilderFactory find_own_op(const std::string& backend, const std::string& class_name) {
  for (const auto& op : all_own_ops())
    if (op.description.class_name == class_name && op.description.serves(backend))
      return [&op] { return std::make_shared<DescribedBuilder>(op, sdk::OpBuilderOptions{}); };
  return {};
}

std::vector<std::string> own_ops(const std::string& backend) {
  std::vector<std::string> out;
  for (const auto& op : all_own_ops())
    if (op.description.serves(backend)) out.push_back(op.description.class_name);
  return out;
}

std::shared_ptr<sdk::OpBuilder> sdk::make_op_builder(const std::string& description, const OpBuilderOptions& options) {
  return std::make_shared<DescribedBuilder>(build::read_op(description), options);
}

}  // namespace anyaccel
