#include "build/service.h"

#include <fcntl.h>
#include <sys/stat.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <cerrno>
#include <limits>
#include <map>
#include <mutex>
#include <set>

#include "anyaccel/error.h"
#include "base/env.h"
#include "base/file.h"
#include "base/fork_safe.h"
#include "base/log.h"
#include "base/untrusted_text.h"
#include "build/cuda.h"
#include "build/executor.h"
#include "build/prefix.h"
#include "build/processes.h"
#include "build/progress.h"
#include "build/sha256.h"
#include "build/toolchain.h"

namespace anyaccel::build {

namespace {

namespace fs = std::filesystem;

std::optional<LibTorch> torch_of(const Op& op, const Settings& settings) {
  if (!op.description.torch) return std::nullopt;
  auto torch = read_libtorch(settings.torch_prefix);
  // Check this before looking for a library, because the cache may contain a library that was
  // compiled for another machine.
  if (op.description.needs_nvcc() && !settings.compile_only)
    if (const auto problem = no_cuda_in(torch); !problem.empty())
      throw Error(ErrorCode::unavailable, "OpBuilder::load",
                  {.what = op.description.name + " cannot be used here: " + problem});
  return torch;
}

Tools find_tools(const Op& op, const Settings& settings) {
  Tools out;
  auto wanted = settings.compiler;
  if (wanted.empty()) {
    wanted = op.description.compiler;
    // The description may give the compiler as a path relative to the op's folder.
    if (wanted.find('/') != std::string::npos && fs::path(wanted).is_relative())
      wanted = (op.folder() / wanted).string();
  }
  out.compiler = find_compiler(wanted);
  if (op.description.needs_nvcc()) out.nvcc = find_nvcc();
  if (!env("CCACHE_DISABLE")) out.ccache = find_tool("ccache").value_or("");
  const Cache cache(settings.cache);
  try {
    cache.prepare();
  } catch (const Error&) {
    // Ignore the error, because an existing library can be used without the folder. A build reports
    // it.
  }
  const auto memo = cache.memo_folder();
  out.compiler_identity = compiler_identity(out.compiler, memo);
  if (!out.nvcc.empty()) out.nvcc_identity = compiler_identity(out.nvcc, memo);
  return out;
}

Key full_key(Key key, const Op& op, const Tools& tools) {
  std::vector<std::pair<std::string, std::string>> identities{
      {"compiler", tools.compiler_identity}};
  if (!tools.nvcc.empty()) identities.emplace_back("nvcc", tools.nvcc_identity);
  auto search = search_environment();
  if (!op.description.prefix_variable.empty())
    search.push_back(op.description.prefix_variable + "=" + prefix_of(op.description));
#ifdef __GLIBC__
  // Machines with an older glibc may share the cache, but cannot load libraries that were built
  // with a newer one.
  identities.emplace_back("glibc", ::gnu_get_libc_version());
#endif
  add_tools(key, identities, search);
  return key;
}

std::string entry_name(const Op& op, const Key& key) {
  return op.description.name + "-" + key.key.substr(0, 24);
}

/// Describes how a manifest differs from the requested key.
std::string difference(const Manifest& manifest, const Key& key) {
  std::string out;
  const std::map<std::string, std::string> theirs(manifest.parts.begin(), manifest.parts.end());
  for (const auto& [name, value] : key.content_parts) {
    const auto place = theirs.find(name);
    if (place != theirs.end() && place->second == value) continue;
    const bool long_text = name.starts_with("file ");
    out += (out.empty() ? "" : "; ") + name + " differs";
    if (!long_text && place != theirs.end())
      out += " (" + place->second + " instead of " + value + ")";
  }
  return out.empty() ? "a file that it was built from is missing" : out;
}

/// Locks `library` for use if it is complete and its external files are unchanged. Otherwise
/// returns nullopt, and sets `problem` if the library exists.
std::optional<Held> hold_right(const Op& op, const fs::path& library, const std::string& content,
                               bool prebuilt, std::string& problem) {
  auto held = hold(library, problem);
  if (!held) return std::nullopt;
  if (held->manifest.content != content) return held;  // the caller reports the difference
  problem = external_change(held->manifest.external, op.description, prebuilt);
  if (!problem.empty()) return std::nullopt;
  return held;
}

void count_use(const Held& held) {
  // Ignore errors: in a read-only cache, the time of the last use is not needed, because no entry
  // is evicted.
  static_cast<void>(
      ::utimensat(AT_FDCWD, (held.library.string() + kManifestSuffix).c_str(), nullptr, 0));
}

enum class Use { counts, does_not };

std::optional<Found> find_prebuilt(const Op& op, const Settings& settings, const Key& key,
                                   std::string* why_not, Use use) {
  const Cache cache(settings.cache);
  // Prefer the result of a forced build over the prebuilt library.
  if (const auto name = cache.preferred(op.description.name, key.content); !name.empty()) {
    std::string ignored;
    auto held = hold_right(op, cache.entry(name) / library_name(op.description), key.content, false,
                           ignored);
    if (held && held->manifest.content == key.content) {
      if (use == Use::counts) count_use(*held);
      return Found{std::move(*held), Origin::cached};
    }
  }
  if (!settings.prebuilt) return std::nullopt;
  for (const auto& folder : settings.paths.prebuilt) {
    std::string problem;
    auto held = hold_right(op, folder / library_name(op.description), key.content, true, problem);
    if (held && held->manifest.content != key.content)
      problem = "it was built differently: " + difference(held->manifest, key);
    if (held && problem.empty()) return Found{std::move(*held), Origin::prebuilt};
    if (problem.empty()) continue;
    log_once(LogLevel::info, "prebuilt " + op.description.name,
             "the prebuilt " + op.description.name + " is not used: " + problem);
    if (why_not != nullptr) *why_not = problem;
  }
  return std::nullopt;
}

std::optional<Found> find_cached(const Op& op, const Settings& settings, const Key& key,
                                 bool& defective, Use use) {
  const Cache cache(settings.cache);
  if (!cache.is_trusted()) return std::nullopt;  // prepare() reports the reason
  const auto folder = cache.entry(entry_name(op, key));
  std::string problem;
  auto held = hold_right(op, folder / library_name(op.description), key.content, false, problem);
  if (held && held->manifest.key != key.key)
    problem = "its manifest belongs to a different library";
  if (!problem.empty()) {
    log_once(LogLevel::warning, folder.string(), op.description.name + " is rebuilt: " + problem);
    defective = true;
    return std::nullopt;
  }
  if (!held) return std::nullopt;
  if (use == Use::counts) count_use(*held);
  return Found{std::move(*held), Origin::cached};
}

std::string questions_failed(const Op& op, const Settings& settings,
                             const std::optional<LibTorch>& torch, const Tools& tools) {
  if (torch && !tools.nvcc.empty())
    if (auto problem = toolkit_mismatch(*torch, tools.nvcc_identity); !problem.empty())
      return problem;
  // Each check runs the compiler, so successful checks are cached until the process exits. Failed
  // checks are repeated, because the user may install the missing package. The lock is not held
  // while a program runs.
  Progress progress(op.description.name);
  static auto* mutex = new ForkSafeMutex;
  static auto* answered = new std::set<std::vector<std::string>>;
  for (const auto& question : make_questions(op, settings.paths, tools)) {
    {
      const std::lock_guard lock(*mutex);
      if (answered->count(question.command) != 0) continue;
    }
    const auto answer = run_program(question.command, build_environment(),
                                    [&] { progress.work_on("looking for " + question.what); });
    // Name TMPDIR in the message, because the compiler writes its temporary files there.
    if (const auto full = full_disk_line(answer.output); !full.empty())
      return "the disk that holds " + env("TMPDIR").value_or("/tmp") +
             " is full: the compiler printed " + quoted_text(full);
    if (answer.status != 0)
      return question.what + " is missing" + (question.hint.empty() ? "" : "; " + question.hint);
    const std::lock_guard lock(*mutex);
    answered->insert(question.command);
  }
  return {};
}

void require_needs(const Op& op, const Settings& settings, const std::optional<LibTorch>& torch,
                   const Tools& tools) {
  if (const auto problem = questions_failed(op, settings, torch, tools); !problem.empty())
    throw Error(ErrorCode::unavailable, "OpBuilder::load",
                {.what = op.description.name + " cannot be built: " + problem});
}

/// Compiles in a private folder and leaves the library and its manifest in `<folder>/out`.
void build_in(const fs::path& folder, const Op& op, const Settings& settings,
              const std::optional<LibTorch>& torch, const Tools& tools, const Key& key) {
  const auto out = folder / "out";
  if (::mkdir(out.c_str(), 0700) != 0)
    throw fs::filesystem_error("cannot create", out,
                               std::error_code(errno, std::generic_category()));
  auto plan =
      make_plan(op, settings.paths, torch ? &*torch : nullptr, settings.target, tools, folder);
  execute(plan, op.description.name,
          {.jobs = job_count(static_cast<int>(plan.steps.size())),
           .verbose = settings.verbose,
           .fatal_warnings = settings.fatal_warnings});
  const auto library = out / library_name(op.description);
  fs::rename(plan.library, library);
  std::vector<fs::path> lists;
  for (const auto& step : plan.steps) lists.push_back(step.list());
  Manifest manifest{
      .op = op.description.name,
      .content = key.content,
      .key = key.key,
      .sha256 = sha256(read_file(library, kMaxLibrary)),
      .external = external_files(op, settings.paths, torch ? &*torch : nullptr, lists),
      .parts = key.content_parts};
  manifest.parts.insert(manifest.parts.end(), key.tool_parts.begin(), key.tool_parts.end());
  write_file_atomically(library.string() + kManifestSuffix, manifest.text());
}

Found build_locked(const Op& op, const Settings& settings, const std::optional<LibTorch>& torch,
                   const Tools& tools, const Key& key) {
  const Cache cache(settings.cache);
  cache.prepare();
  const auto name = entry_name(op, key);
  Progress progress(op.description.name);
  const auto lock = FileLock::exclusive(cache.lock_file(name),
                                        [&](const auto& holder) { progress.wait_for(holder); });
  bool defective = settings.force;
  if (!settings.force)
    if (auto found = find_cached(op, settings, key, defective, Use::counts))
      return std::move(*found);
  require_needs(op, settings, torch, tools);
  cache.evict(Cache::size_limit(), name);
  const PrivateFolder folder(cache.folder());
  build_in(folder.path(), op, settings, torch, tools, key);
  cache.publish(folder.path() / "out", name, defective);
  if (settings.force) cache.prefer(op.description.name, key.content, name);
  bool unused = false;
  auto found = find_cached(op, settings, key, unused, Use::counts);
  if (!found)
    throw Error(ErrorCode::io, "op cache",
                {.what = "the new library of " + op.description.name + " is missing from " +
                         cache.folder().string(),
                 .hint = "check whether another program removes files there"});
  found->origin = Origin::built;
  return std::move(*found);
}

}  // namespace

const char* to_string(Origin origin) noexcept {
  return origin == Origin::prebuilt ? "prebuilt" : origin == Origin::cached ? "cached" : "built";
}

Settings default_settings(fs::path torch_prefix) {
  return {.paths = own_paths(),
          .torch_prefix = std::move(torch_prefix),
          .target = target_from_environment(),
          .cache = Cache::default_folder()};
}

std::optional<Found> find(const Op& op, const Settings& settings, std::string* why_not) {
  const auto torch = torch_of(op, settings);
  const auto key = content_key(op, settings.paths, torch ? &*torch : nullptr, settings.target);
  if (auto found = find_prebuilt(op, settings, key, why_not, Use::does_not)) return found;
  bool unused = false;
  return find_cached(op, settings, full_key(key, op, find_tools(op, settings)), unused,
                     Use::does_not);
}

Found find_or_build(const Op& op, const Settings& settings) try {
  const auto torch = torch_of(op, settings);
  auto key = content_key(op, settings.paths, torch ? &*torch : nullptr, settings.target);
  if (!settings.force)
    if (auto found = find_prebuilt(op, settings, key, nullptr, Use::counts))
      return std::move(*found);
  const auto tools = find_tools(op, settings);
  key = full_key(std::move(key), op, tools);
  bool unused = false;
  // Look without the lock first, so that a read-only cache is usable.
  if (!settings.force)
    if (auto found = find_cached(op, settings, key, unused, Use::counts)) return std::move(*found);
  return build_locked(op, settings, torch, tools, key);
} catch (const fs::filesystem_error& error) {
  throw Error(ErrorCode::io, "op cache",
              {.what = error.what(),
               .hint = "set ANYACCEL_OP_CACHE to a folder of your own on a disk with free space"});
}

Compatibility check(const Op& op, const Settings& settings) noexcept try {
  try {
    const auto torch = torch_of(op, settings);
    auto key = content_key(op, settings.paths, torch ? &*torch : nullptr, settings.target);
    if (find_prebuilt(op, settings, key, nullptr, Use::does_not)) return {true, {}};
    const auto tools = find_tools(op, settings);
    key = full_key(std::move(key), op, tools);
    bool unused = false;
    if (find_cached(op, settings, key, unused, Use::does_not)) return {true, {}};
    auto problem = questions_failed(op, settings, torch, tools);
    if (!problem.empty()) return {false, problem};
    const Cache cache(settings.cache);
    cache.prepare();
    cache.require_room();
    return {true, {}};
  } catch (const std::exception& error) {
    return {false, error.what()};
  }
} catch (...) {
  return {false, "out of memory"};
}

Key key_of(const Op& op, const Settings& settings) {
  std::optional<LibTorch> torch;
  if (op.description.torch) torch = read_libtorch(settings.torch_prefix);
  return content_key(op, settings.paths, torch ? &*torch : nullptr, settings.target);
}

DryRun dry_run(const Op& op, const Settings& settings) {
  const auto torch = torch_of(op, settings);
  auto key = content_key(op, settings.paths, torch ? &*torch : nullptr, settings.target);
  const auto tools = find_tools(op, settings);
  key = full_key(std::move(key), op, tools);
  const auto entry = Cache(settings.cache).entry(entry_name(op, key));
  const auto plan =
      make_plan(op, settings.paths, torch ? &*torch : nullptr, settings.target, tools, entry);
  DryRun out{.name = op.description.name,
             .key = key.key,
             .folder = entry,
             .jobs = job_count(static_cast<int>(plan.steps.size())),
             .commands = {}};
  for (const auto& step : plan.steps) out.commands.push_back(shell_quoted(step.command));
  out.commands.push_back(shell_quoted(plan.link));
  return out;
}

Origin build_prebuilt(const Op& op, const Settings& settings, const fs::path& folder) {
  const auto torch = torch_of(op, settings);
  auto key = content_key(op, settings.paths, torch ? &*torch : nullptr, settings.target);
  const auto tools = find_tools(op, settings);
  key = full_key(std::move(key), op, tools);
  const auto library = folder / library_name(op.description);
  std::string problem;
  if (!settings.force)
    if (const auto held = hold_right(op, library, key.content, false, problem);
        held && held->manifest.key == key.key)
      return Origin::prebuilt;
  require_needs(op, settings, torch, tools);
  fs::create_directories(folder);
  Cache(folder).evict(
      std::numeric_limits<std::int64_t>::max());  // remove only what killed builds left behind
  const PrivateFolder work(folder);
  build_in(work.path(), op, settings, torch, tools, key);
  const auto made = work.path() / "out" / library.filename();
  // If the process is killed between the two renames, the checksum in the old manifest does not
  // match the new library, and the library is then rejected.
  fs::rename(made, library);
  fs::rename(made.string() + kManifestSuffix, library.string() + kManifestSuffix);
  return Origin::built;
}

}  // namespace anyaccel::build
