#include "core/described_builder.h"

#include <c10/core/DeviceType.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "anyaccel/error.h"
#include "anyaccel/interrupt.h"
#include "anyaccel/sdk/described_op.h"
#include "base/dynamic_library.h"
#include "base/fork_safe.h"
#include "base/library_folder.h"
#include "base/log.h"
#include "base/trusted_path.h"
#include "build/key.h"

namespace anyaccel {

namespace {

/// The open ops, keyed by description file. A library that registers schemas must be opened only
/// once. No lock is held while an op is built or opened. Threads that need other ops therefore do
/// not wait, and a child forked in the meantime can load the op itself.
class OpenOps {
 public:
  void load(const build::Op& op, const build::Settings& settings) {
    if (!begin(op.file)) return;
    try {
      end(op.file, open(op, settings));
    } catch (...) {
      end(op.file, {});
      throw;
    }
  }
  /// Returns the path of the op's library, or an empty string if it is not open.
  std::string library(const std::filesystem::path& file) {
    const std::lock_guard lock(mutex_);
    const auto found = states_.find(file);
    return found == states_.end() ? std::string() : found->second.library;
  }

 private:
  struct State {
    std::string library = {};  ///< empty until the library is loaded
    /// PID of the process whose thread loads the op. A forked child does not have that thread.
    pid_t loader = 0;
  };

  /// Returns true if this thread must load the op, and false if the op is already open. Waits while
  /// another thread loads it.
  bool begin(const std::filesystem::path& file) {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        auto& state = states_[file];
        if (!state.library.empty()) return false;
        if (state.loader != ::getpid()) {
          state.loader = ::getpid();
          return true;
        }
      }
      throw_if_interrupted("OpBuilder::load");
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  void end(const std::filesystem::path& file, std::string library) {
    const std::lock_guard lock(mutex_);
    states_[file] = {.library = std::move(library), .loader = 0};
  }

  static std::string open(const build::Op& op, build::Settings settings) {
    auto found = build::find_or_build(op, settings);
    log(LogLevel::debug, op.description.name + " is " + build::to_string(found.origin) + ": " +
                             found.held.library.string());
    auto reason = try_open(found);
    if (!reason.empty() && found.origin != build::Origin::built) {
      // The library is complete but cannot be loaded. It was probably built on a machine with a
      // different C library or other shared libraries.
      log(LogLevel::warning, "rebuilding " + op.description.name + ": " +
                                 found.held.library.string() + " cannot be loaded: " + reason);
      settings.force = true;
      found.held.use = {};
      found = build::find_or_build(op, settings);
      reason = try_open(found);
    }
    if (!reason.empty())
      throw Error(ErrorCode::build_failed, "OpBuilder::load",
                  {.what = "cannot load the library of " + op.description.name + ": " + reason});
    found.held.use.keep();  // no process may remove a library that is in use
    return found.held.library.string();
  }
  static std::string try_open(const build::Found& found) {
    std::string reason;
    const auto library = DynamicLibrary::try_open(found.held.library.string(), &reason,
                                                  DynamicLibrary::Unload::never);
    if (library) return {};
    return reason.empty() ? "the loader reported no reason" : reason;
  }

  ForkSafeMutex mutex_;
  std::map<std::filesystem::path, State> states_;
};

OpenOps& open_ops() {
  static auto* instance = new OpenOps;
  return *instance;
}

class DescribedBuilder final : public sdk::OpBuilder {
 public:
  /// `trusted` means that the caller vouches for the sources, which are next to the caller's own
  /// code.
  DescribedBuilder(build::Op op, sdk::OpBuilderOptions options, bool trusted)
      : op_(std::move(op)), options_(std::move(options)), trusted_(trusted) {}

  std::string class_name() const override { return op_.description.class_name; }
  std::string name() const override { return op_.description.name; }
  Compatibility is_compatible() const noexcept override try {
    if (auto problem = source_problem(); !problem.empty())
      return {.compatible = false, .reason = std::move(problem)};
    return build::check(op_, settings());
  } catch (const std::exception& error) {
    return {.compatible = false, .reason = error.what()};
  }
  void load() override {
    if (const auto problem = source_problem(); !problem.empty())
      throw Error(ErrorCode::unavailable, "OpBuilder::load", {.what = problem});
    open_ops().load(op_, settings());
  }
  std::string library() const { return open_ops().library(op_.file); }
  std::vector<std::string> sources() const override {
    std::vector<std::string> out;
    for (const auto& source : op_.description.sources)
      for (const auto& file : source.files)
        out.push_back((build::folder_of(source, op_, build::own_paths()) / file).string());
    return out;
  }
  std::vector<std::string> include_paths() const override {
    std::vector<std::string> out{op_.source_folder().string()};
    for (const auto& folder : op_.description.includes)
      out.push_back((op_.folder() / folder).string());
    for (const auto& folder : build::own_paths().includes) out.push_back(folder.string());
    return out;
  }

 private:
  /// Returns the reason why the sources must not be compiled into this process, or an empty string
  /// if they may be.
  std::string source_problem() const {
    if (trusted_) return {};
    if (auto problem = trust_problem(op_.file, TrustedKind::file); !problem.empty()) return problem;
    const auto& paths = build::own_paths();
    auto own = build::source_folders(paths);
    own.insert(own.end(), paths.includes.begin(), paths.includes.end());
    for (const auto& [name, path] : build::key_files(op_, paths)) {
      const auto& file = path;
      // AnyAccel's own headers and sources are as trustworthy as its libraries.
      const bool ours = std::any_of(own.begin(), own.end(), [&](const auto& folder) {
        std::error_code ignored;
        const auto real = std::filesystem::weakly_canonical(folder, ignored);
        return std::mismatch(real.begin(), real.end(), file.begin(), file.end()).first ==
               real.end();
      });
      if (ours) continue;
      if (auto problem = trust_problem(file, TrustedKind::file); !problem.empty()) return problem;
    }
    return {};
  }
  build::Settings settings() const {
    auto out = own_settings();
    out.compiler = options_.compiler;
    // Only AnyAccel's own ops are prebuilt.
    out.prebuilt = op_.folder().parent_path() == out.paths.ops.lexically_normal();
    return out;
  }
  build::Op op_;
  sdk::OpBuilderOptions options_;
  bool trusted_;
};

const std::vector<build::Op>& all_own_ops() {
  static const auto* instance = [] {
    auto* out = new std::vector<build::Op>;
    try {
      for (const auto& file : build::op_files(build::own_paths().ops)) {
        try {
          out->push_back(build::read_op(file));
        } catch (const Error& error) {
          log(LogLevel::warning, std::string("skipping an op: ") + error.what());
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

build::Settings own_settings() {
  // Use the prefix of the LibTorch that this process has loaded, even if it was moved after the
  // build.
  static const auto prefix =
      library_folder<std::string(c10::DeviceType, bool)>("op builders", &c10::DeviceTypeName)
          .parent_path();
  return build::default_settings(prefix);
}

const build::Op* own_op(const std::string& class_name) {
  for (const auto& op : all_own_ops())
    if (op.description.class_name == class_name) return &op;
  return nullptr;
}

sdk::OpBuilderFactory find_own_op(const std::string& backend, const std::string& class_name) {
  const build::Op *named = nullptr, *general = nullptr;
  for (const auto& op : all_own_ops()) {
    const auto& what = op.description;
    if (what.class_name != class_name || !what.serves(backend)) continue;
    const build::Op*& place = what.names(backend) ? named : general;
    if (!place) place = &op;
  }
  const auto make = [](const build::Op& op) {
    return std::make_shared<DescribedBuilder>(op, sdk::OpBuilderOptions{}, true);
  };
  if (named == nullptr && general == nullptr) return {};
  if (named == nullptr || general == nullptr)
    return [make, op = named ? named : general] { return make(*op); };
  return [make, named, general] {
    auto builder = make(*named);
    const auto can = builder->is_compatible();
    if (can.compatible) return builder;
    log(LogLevel::debug,
        named->description.name + ": using the version for all backends: " + can.reason);
    return make(*general);
  };
}

std::vector<std::string> own_ops(const std::string& backend) {
  std::vector<std::string> out;
  for (const auto& op : all_own_ops()) {
    const auto& name = op.description.class_name;
    if (op.description.serves(backend) && std::find(out.begin(), out.end(), name) == out.end())
      out.push_back(name);
  }
  return out;
}

std::shared_ptr<sdk::OpBuilder> sdk::make_described_builder(const std::string& text,
                                                            const std::string& folder,
                                                            const OpBuilderOptions& options) {
  auto description = build::parse_description(text);
  const auto file =
      (std::filesystem::absolute(folder) / (description.name + ".op")).lexically_normal();
  return std::make_shared<DescribedBuilder>(build::Op{std::move(description), file}, options, true);
}

std::string sdk::library_of(const OpBuilder& builder) {
  const auto* described = dynamic_cast<const DescribedBuilder*>(&builder);
  return described == nullptr ? std::string() : described->library();
}

std::shared_ptr<sdk::OpBuilder> sdk::make_op_builder(const std::string& description,
                                                     const OpBuilderOptions& options) {
  return std::make_shared<DescribedBuilder>(build::read_op(description), options, false);
}

}  // namespace anyaccel
