// Libraries of ops. Needs no LibTorch in this process: building reads its files only.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "anyaccel/error.h"
#include "base/built_traits.h"
#include "base/untrusted_text.h"
#include "build/service.h"
#include "cli/front/front.h"

namespace anyaccel::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHelp =
    "Usage: anyaccel ops list [--backend NAME] [--json]\n"
    "       anyaccel ops build [NAME...] [OPTION...]\n"
    "       anyaccel ops info NAME [--json]\n"
    "       anyaccel ops clean [NAME...] [--json] [--force]\n\n"
    "List, build, explain and clean the libraries of ops. NAME is an op's, as cpu_adam, or its builder's, as\n"
    "CPUAdamBuilder. Without names, `build` takes all ops of the backends whose devices are here.\n\n"
    "Options:\n"
    "  -h, --help          Print this help and exit\n"
    "  --backend NAME      Ops of this backend, with a device of it here or not\n"
    "  --json              Print JSON, for programs\n"
    "  --force             Build although there is a library, and use it from then on; with `clean`, remove also what "
    "other\n"
    "                      machines may be using\n"
    "  --verbose           Print the commands that run\n"
    "  --dry-run           Print keys, folders and commands, and run nothing\n"
    "  --target-arch ARCH  Instruction set to build for, as -march knows it; ANYACCEL_OP_ARCH\n"
    "  --cuda-archs LIST   CUDA architectures to build for, as 80;9.0+PTX; ANYACCEL_CUDA_ARCHS\n"
    "  --compiler PROGRAM  C++ compiler\n";

struct Options {
  std::string action;
  std::vector<std::string> names;
  std::string backend, target_arch, cuda_archs, compiler;
  bool json = false, force = false, verbose = false, dry_run = false, help = false;
};

Options parse(std::span<const char* const> arguments) {
  Options out;
  const auto value_of = [&](std::size_t& i, std::string_view option, std::string& value) {
    std::string word = arguments[i];
    const auto name = word.substr(0, word.find('='));
    if (with_dashes(name) != option) return false;
    if (name.size() < word.size()) return value = word.substr(name.size() + 1), true;
    if (i + 1 == arguments.size()) throw UsageError("ops: " + name + " requires a value");
    return value = arguments[++i], true;
  };
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::string word = arguments[i];
    if (value_of(i, "--backend", out.backend) || value_of(i, "--target-arch", out.target_arch) ||
        value_of(i, "--cuda-archs", out.cuda_archs) || value_of(i, "--compiler", out.compiler))
      continue;
    word = with_dashes(word);
    if (word == "-h" || word == "--help") {
      out.help = true;
    } else if (word == "--json") {
      out.json = true;
    } else if (word == "--force") {
      out.force = true;
    } else if (word == "--verbose") {
      out.verbose = true;
    } else if (word == "--dry-run") {
      out.dry_run = true;
    } else if (word.size() > 1 && word.front() == '-') {
      unknown_option("ops", arguments[i], kHelp);
    } else if (out.action.empty()) {
      out.action = word;
    } else {
      out.names.push_back(word);
    }
  }
  return out;
}

/// Whether a device of the backend is here, as its traits tell. Those without a probe need none, or tell through torch alone.
bool is_here(const sdk::Traits& traits) { return traits.probe == nullptr || traits.probe().device_count > 0; }

bool is_named(const build::Op& op, const Options& options) {
  return std::any_of(options.names.begin(), options.names.end(), [&](const auto& name) {
    return name == op.description.name || name == op.description.class_name;
  });
}

bool wanted(const build::Op& op, const Options& options) {
  const auto& what = op.description;
  if (!options.names.empty() && !is_named(op, options)) return false;
  if (!options.backend.empty()) return what.serves(options.backend);
  const auto& all = built_traits();
  const bool here = what.serves("*") || std::any_of(all.begin(), all.end(), [&](const auto* traits) {
                      return what.serves(traits->name) && is_here(*traits);
                    });
  // CUDA sources that share their name with an op of the host are not meant where there is no CUDA.
  if (!options.names.empty()) return here || !what.needs_nvcc() || !options.cuda_archs.empty();
  return options.action != "build" || here;
}

/// Those whose description can be read; of the others it says why not.
std::vector<build::Op> all_ops() {
  std::vector<build::Op> out;
  for (const auto& file : build::op_files(build::own_paths().ops)) try {
      out.push_back(build::read_op(file));
    } catch (const Error& error) {
      std::fprintf(stderr, "anyaccel: warning: an op is left out: %s\n", error.what());
    }
  return out;
}

std::vector<build::Op> find_ops(const Options& options) {
  std::vector<build::Op> out;
  std::vector<build::Op> named;
  std::vector<std::string> missing = options.names;
  for (auto& op : all_ops()) {
    std::erase(missing, op.description.name);
    std::erase(missing, op.description.class_name);
    if (wanted(op, options)) out.push_back(op);
    if (is_named(op, options)) named.push_back(std::move(op));
  }
  if (!missing.empty())
    throw Error(ErrorCode::not_found, "ops",
                {.what = "there is no op of this name",
                 .got = quoted_text(missing.front()),
                 .hint = "see `anyaccel ops list`"});
  if (out.empty() && !named.empty() && !options.backend.empty())
    throw Error(ErrorCode::not_found, "ops",
                {.what = "the op has no sources for this backend",
                 .got = quoted_text(options.backend),
                 .hint = "see `anyaccel ops list`"});
  if (out.empty()) out = std::move(named);  // for CUDA alone, without CUDA: building it says why it cannot be
  return out;
}

build::Settings settings_of(const Options& options) {
  auto out = build::default_settings(build::recorded_libtorch());
  if (!options.target_arch.empty()) out.target.arch = build::checked_arch(options.target_arch);
  if (!options.cuda_archs.empty()) out.target.cuda_archs = build::parse_cuda_archs(options.cuda_archs);
  // Who names architectures builds for a machine that has them.
  out.compile_only = options.action == "build" && !out.target.cuda_archs.empty();
  out.compiler = options.compiler;
  out.verbose = options.verbose;
  out.force = options.force;
  return out;
}

/// What is there of an op, and whether more could be.
Json state_of(const build::Op& op, const build::Settings& settings) {
  Json out{
      {"name", op.description.name}, {"class_name", op.description.class_name}, {"backends", op.description.backends}};
  std::string why_not;
  std::optional<build::Found> found;
  try {
    found = build::find(op, settings, &why_not);
  } catch (const Error&) {
    // No compiler, no LibTorch: check() has the words.
  }
  out["state"] = found ? build::to_string(found->origin) : "not built";
  out["library"] = found ? Json(found->held.library.string()) : Json(nullptr);
  const auto answer = found ? Compatibility{true, {}} : build::check(op, settings);
  out["compatible"] = answer.compatible;
  out["reason"] = answer.compatible ? why_not : answer.reason;
  return out;
}

int list(const Options& options) {
  const auto settings = settings_of(options);
  Json all = Json::array();
  for (const auto& op : find_ops(options)) all.push_back(state_of(op, settings));
  if (options.json) return std::puts(all.dump(2).c_str()), 0;
  for (const auto& op : all) {
    std::string backends;
    for (const auto& name : op["backends"]) backends += (backends.empty() ? "" : ",") + name.get<std::string>();
    const auto reason = op["reason"].get<std::string>();
    std::printf("%-24s %-28s %-10s %s%s\n", op["name"].get<std::string>().c_str(),
                op["class_name"].get<std::string>().c_str(), backends.c_str(), op["state"].get<std::string>().c_str(),
                reason.empty() ? "" : (": " + reason).c_str());
  }
  return 0;
}

int build_ops(const Options& options) {
  const auto settings = settings_of(options);
  Json all = Json::array();
  int code = 0;
  for (const auto& op : find_ops(options)) {
    const auto& name = op.description.name;
    if (options.dry_run) {
      const auto plan = build::dry_run(op, settings);
      if (options.json) {
        all.push_back({{"name", plan.name},
                       {"key", plan.key},
                       {"folder", plan.folder.string()},
                       {"jobs", plan.jobs},
                       {"commands", plan.commands}});
        continue;
      }
      std::printf("%s\n  key     %s\n  folder  %s\n  jobs    %d\n", plan.name.c_str(), plan.key.c_str(),
                  plan.folder.c_str(), plan.jobs);
      for (const auto& command : plan.commands) std::printf("  %s\n", command.c_str());
      continue;
    }
    Json result{{"name", name}};
    try {
      const auto found = build::find_or_build(op, settings);
      result.update({{"state", build::to_string(found.origin)}, {"library", found.held.library.string()}});
      if (!options.json)
        std::printf("%s: %s, %s\n", name.c_str(), build::to_string(found.origin), found.held.library.c_str());
    } catch (const Error& error) {
      // What was asked for by name must be there; of all the others, what this machine cannot build is no failure.
      const bool skipped = options.names.empty() && error.code() == ErrorCode::unavailable;
      if (!skipped) code = 1;
      result.update(
          {{"state", skipped ? "skipped" : "failed"}, {"error", to_string(error.code())}, {"reason", error.what()}});
      if (!options.json)
        std::fprintf(skipped ? stdout : stderr, "%s: %s: %s\n", name.c_str(), skipped ? "skipped" : "failed",
                     error.what());
    }
    std::fflush(stdout);
    all.push_back(std::move(result));
  }
  if (options.json) std::puts(all.dump(2).c_str());
  return code;
}

int info(const Options& options) {
  if (options.names.size() != 1) throw UsageError("ops info wants one name");
  const auto settings = settings_of(options);
  const auto op = find_ops(options).at(0);
  auto out = state_of(op, settings);
  out["description"] = op.file.string();
  out["cache"] = settings.cache.string();
  Json parts = Json::object();
  for (const auto& [name, value] : build::key_of(op, settings).content_parts) parts[name] = value;
  out["key_parts"] = parts;
  if (options.json) return std::puts(out.dump(2).c_str()), 0;
  for (const auto& [name, value] : out.items())
    if (name != "key_parts")
      std::printf("%-12s %s\n", name.c_str(),
                  value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
  std::puts("made from");
  for (const auto& [name, value] : parts.items())
    std::printf("  %-40s %s\n", name.c_str(), value.get<std::string>().c_str());
  return 0;
}

int clean(const Options& options) {
  // What looks careful must not remove everything.
  if (options.dry_run || !options.backend.empty())
    throw UsageError("ops clean takes names, --json and --force; without a name it removes all that is not in use");
  const build::Cache cache(build::Cache::default_folder());
  std::pair<int, int> sum{0, 0};
  auto names = options.names;
  // Also of ops that are no longer there; a builder's name is turned into its op's.
  if (names.empty()) names = {""};
  for (auto& name : names)
    for (const auto& op : all_ops())
      if (name == op.description.class_name) name = op.description.name;
  for (const auto& name : names) {
    const auto [removed, kept] = cache.clean(name, options.force);
    sum.first += removed, sum.second += kept;
  }
  // With nothing left to keep, what killed builders left goes too.
  cache.evict(std::numeric_limits<std::int64_t>::max());
  if (options.json)
    return std::puts(Json{{"folder", cache.folder().string()},
                          {"removed", sum.first},
                          {"in_use", sum.second},
                          {"shared", cache.is_shared()}}
                         .dump(2)
                         .c_str()),
           0;
  std::printf("%s: %d removed, %d in use\n", cache.folder().c_str(), sum.first, sum.second);
  if (sum.second > 0 && !options.force && cache.is_shared())
    std::puts(
        "other machines may use this folder: what was loaded within 30 days counts as in use; --force removes it");
  return 0;
}

}  // namespace

int run_ops(std::span<const char* const> arguments) {
  const auto options = parse(arguments);
  if (options.help) return std::fputs(kHelp, stdout), 0;
  if (options.action == "list") return list(options);
  if (options.action == "build") return build_ops(options);
  if (options.action == "info") return info(options);
  if (options.action == "clean") return clean(options);
  throw UsageError(options.action.empty()
                       ? "ops wants list, build, info or clean"
                       : "ops: there is no '" + options.action + "'; want list, build, info or clean");
}

}  // namespace anyaccel::cli
