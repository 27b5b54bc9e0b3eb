#include "backends/cpu/communication.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <sstream>
#include <vector>

#include "anyaccel/error.h"
#include "base/dynamic_library.h"
#include "base/env.h"
#include "base/file.h"
#include "base/log.h"
#include "build/cache.h"
#include "build/elf.h"
#include "build/prefix.h"
#include "build/sha256.h"
#include "core/described_builder.h"
#include "core/plugin_trial.h"

namespace anyaccel::backends::cpu {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::system_clock;

constexpr const char* kBuilder = "CCLCommBuilder";
constexpr const char* kStarts = "starts";
/// Starting oneCCL takes half a second on an idle machine, and more than ten seconds on an
/// overloaded one.
constexpr double kTrialSeconds = 40;
constexpr auto kRefusalLasts = std::chrono::hours(1);

CommunicationChoice gloo(const std::string& why) { return {"gloo", "gloo, because " + why}; }

/// Size and modification time of a file or folder; empty if it does not exist.
std::string stamp(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return std::to_string(info.st_size) + " " + std::to_string(info.st_mtim.tv_sec) + "." +
         std::to_string(info.st_mtim.tv_nsec);
}

/// A cheap check that skips the search on machines without oneCCL. Computing the op's key takes
/// milliseconds, because the key depends on the contents of the op's sources.
bool may_be_built(const build::Op& op, const build::Settings& settings) {
  std::error_code ignored;
  for (const auto& folder : settings.paths.prebuilt)
    if (fs::exists(folder / build::library_name(op.description), ignored)) return true;
  for (const auto& item : fs::directory_iterator(settings.cache, ignored))
    if (item.path().filename().string().starts_with(op.description.name + "-")) return true;
  return false;
}

/// Returns the stored result of a trial, or nullopt if there is none or a stored failure has
/// expired.
std::optional<std::string> kept(const fs::path& memo, const std::string& identity) {
  const auto text = try_read_file(memo);
  if (!text || !text->starts_with(identity + "\n\n")) return std::nullopt;
  std::istringstream rest(text->substr(identity.size() + 2));
  std::int64_t time = 0;
  std::string answer;
  if (!(rest >> time) || !std::getline(rest >> std::ws, answer)) return std::nullopt;
  const auto age = Clock::now() - Clock::from_time_t(time);
  if (answer != kStarts && (age > kRefusalLasts || age < std::chrono::seconds(-1)))
    return std::nullopt;
  return answer;
}

/// Stores the result of a trial. If the cache cannot be written, the next process runs the trial
/// again.
void keep(const fs::path& memo, const std::string& identity, const std::string& answer) {
  try {
    write_file_atomically(memo, identity + "\n\n" + std::to_string(Clock::to_time_t(Clock::now())) +
                                    " " + answer + "\n");
  } catch (const std::exception& error) {
    log(LogLevel::debug,
        std::string("cannot store the result of the oneCCL trial: ") + error.what());
  }
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return text;
}

/// Returns "starts", or the reason why oneCCL does not start.
std::string try_start(const fs::path& library) {
  const auto problem = run_in_trial(
      [&] {
        std::string reason;
        const auto op =
            DynamicLibrary::try_open(library.string(), &reason, DynamicLibrary::Unload::never);
        if (!op)
          throw Error(ErrorCode::unavailable, kBuilder, {.what = "cannot load the op: " + reason});
        const auto* const text = op.get<const char* (*)()>("anyaccel_ccl_comm_trial")();
        if (text != nullptr) throw Error(ErrorCode::unavailable, kBuilder, {.what = text});
      },
      kTrialSeconds);
  return problem.empty() ? kStarts : one_line(problem);
}

CommunicationChoice choose() {
  const auto mode = env("ANYACCEL_CCL").value_or("auto");
  if (mode == "off") return gloo("ANYACCEL_CCL is off");
  if (mode != "auto")
    log_once(LogLevel::warning, "ANYACCEL_CCL",
             "ANYACCEL_CCL=" + mode + " is ignored; expected auto or off");
  const auto* const op = own_op(kBuilder);
  if (op == nullptr) return gloo("this build of AnyAccel does not include the oneCCL op");
  const auto settings = own_settings();
  const auto prefix = build::prefix_of(op->description);
  const auto not_built = [&](const std::string& why) {
    return gloo("the op " + op->description.name + " is not built" +
                (why.empty() ? "" : " for this machine: " + why) +
                (prefix.empty() ? "; oneCCL was not found"
                                : "; oneCCL is in " + prefix + ", so run `anyaccel ops build " +
                                      op->description.name + "`"));
  };
  if (!may_be_built(*op, settings)) return not_built({});
  std::string why;
  const auto found = build::find(*op, settings, &why);
  if (!found) return not_built(why);
  const build::Cache cache(settings.cache);
  try {
    cache.prepare();
  } catch (const Error& error) {
    log(LogLevel::debug,
        std::string("cannot store the result of the oneCCL trial: ") + error.what());
  }
  const auto& library = found->held.library;
  const auto identity = found->held.manifest.sha256 + "\n" + ccl_identity(library);
  const auto folder = cache.memo_folder();
  const auto name = "ccl-" + build::sha256(identity).substr(0, 16);
  auto answer = folder.empty() ? std::nullopt : kept(folder / name, identity);
  if (!answer) {
    // If the ranks on a node start at the same time, one runs the trial and the others use its
    // result, so that all ranks agree.
    build::FileLock lock;
    if (!folder.empty()) {
      lock = build::FileLock::exclusive(cache.lock_file(name), [](const auto&) {});
      answer = kept(folder / name, identity);
    }
    if (!answer) {
      answer = try_start(library);
      if (!folder.empty()) keep(folder / name, identity, *answer);
    }
  }
  if (*answer == kStarts) return {"ccl", "oneCCL starts on this machine"};
  return gloo("oneCCL does not start: " + *answer);
}

}  // namespace

std::string ccl_identity(const fs::path& op_library) {
  std::ostringstream out;
  const auto elf = build::read_elf(op_library);
  std::istringstream folders(elf ? elf->run_path : std::string());
  for (std::string folder; std::getline(folders, folder, ':');) {
    // Include the folder, because oneCCL loads other libraries from it.
    out << folder << " " << stamp(folder) << "\n";
    for (const auto& name : elf->needed)
      if (const fs::path path = fs::path(folder) / name;
          name.starts_with("libccl") && !stamp(path).empty())
        out << path.string() << " " << stamp(path) << " " << build::library_identity(path) << "\n";
  }
  // Exclude environment variables that differ between ranks, because all ranks use the result of
  // one trial.
  static const std::set<std::string> kOfRanks{"CCL_LOCAL_RANK", "CCL_LOCAL_SIZE"};
  std::set<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto variable = text.substr(0, text.find('='));
    for (const char* prefix : {"CCL_", "FI_", "I_MPI_", "LD_LIBRARY_PATH", "LD_PRELOAD"})
      if (variable.starts_with(prefix) && !kOfRanks.contains(variable))
        variables.insert(one_line(text));
  }
  for (const auto& one : variables) out << one << "\n";
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) out << "on " << host.data();
  return out.str();
}

CommunicationChoice choose_communication() noexcept try {
  return choose();
} catch (const std::exception& error) {
  return gloo(std::string("the search for oneCCL failed: ") + one_line(error.what()));
} catch (...) {
  return {"gloo", ""};
}

}  // namespace anyaccel::backends::cpu
