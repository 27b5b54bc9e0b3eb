// The command `ops`. This process does not load LibTorch, because a build needs only LibTorch's
// files.
#include <CLI/CLI.hpp>
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
#include "cli/front/parser.h"

namespace anyaccel::cli {
namespace {

using Json = nlohmann::ordered_json;

struct OpsOptions {
  std::vector<std::string> names;
  std::string backend, target_arch, cuda_archs, compiler;
  bool building = false, json = false, force = false, verbose = false, dry_run = false;
};

/// True if the probe in the backend's traits finds a device. Backends without a probe also count as
/// present: they either need no device or can be detected only through torch.
bool is_here(const sdk::Traits& traits) {
  return traits.probe == nullptr || traits.probe().device_count > 0;
}

bool is_named(const build::Op& op, const OpsOptions& options) {
  return std::any_of(options.names.begin(), options.names.end(), [&](const auto& name) {
    return name == op.description.name || name == op.description.class_name;
  });
}

bool wanted(const build::Op& op, const OpsOptions& options) {
  const auto& what = op.description;
  if (!options.names.empty() && !is_named(op, options)) return false;
  if (!options.backend.empty()) return what.serves(options.backend);
  const auto& all = built_traits();
  const bool here =
      what.serves("*") || std::any_of(all.begin(), all.end(), [&](const auto* traits) {
        return what.serves(traits->name) && is_here(*traits);
      });
  // If a host op and a CUDA op have the same name, the name refers to the host op on machines
  // without CUDA.
  if (!options.names.empty()) return here || !what.needs_nvcc() || !options.cuda_archs.empty();
  return !options.building || here;
}

/// Returns all ops whose description can be read, and prints a warning for each of the others.
std::vector<build::Op> all_ops() {
  std::vector<build::Op> out;
  for (const auto& file : build::op_files(build::own_paths().ops)) try {
      out.push_back(build::read_op(file));
    } catch (const Error& error) {
      std::fprintf(stderr, "anyaccel: warning: skipping an op: %s\n", error.what());
    }
  return out;
}

std::vector<build::Op> find_ops(const OpsOptions& options) {
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
                {.what = "unknown op",
                 .got = quoted_text(missing.front()),
                 .hint = "run `anyaccel ops list` for a list"});
  if (out.empty() && !named.empty() && !options.backend.empty())
    throw Error(ErrorCode::not_found, "ops",
                {.what = "the op has no sources for this backend",
                 .got = quoted_text(options.backend),
                 .hint = "run `anyaccel ops list` for a list"});
  if (out.empty())
    // The named ops need CUDA, which is missing; the build reports the error.
    out = std::move(named);
  return out;
}

build::Settings settings_of(const OpsOptions& options) {
  auto out = build::default_settings(build::recorded_libtorch());
  if (!options.target_arch.empty()) out.target.arch = build::checked_arch(options.target_arch);
  if (!options.cuda_archs.empty())
    out.target.cuda_archs = build::parse_cuda_archs(options.cuda_archs);
  // If the user names CUDA architectures, the build may be for another machine.
  out.compile_only = options.building && !out.target.cuda_archs.empty();
  out.compiler = options.compiler;
  out.verbose = options.verbose;
  out.force = options.force;
  return out;
}

/// Returns the state of an op: whether its library exists and, if not, whether it can be built.
Json state_of(const build::Op& op, const build::Settings& settings) {
  Json out{{"name", op.description.name},
           {"class_name", op.description.class_name},
           {"backends", op.description.backends}};
  std::string why_not;
  std::optional<build::Found> found;
  try {
    found = build::find(op, settings, &why_not);
  } catch (const Error&) {
    // The compiler or LibTorch is missing. check() returns the reason.
  }
  out["state"] = found ? build::to_string(found->origin) : "not built";
  out["library"] = found ? Json(found->held.library.string()) : Json(nullptr);
  const auto answer = found ? Compatibility{true, {}} : build::check(op, settings);
  out["compatible"] = answer.compatible;
  out["reason"] = answer.compatible ? why_not : answer.reason;
  return out;
}

int list_ops(const OpsOptions& options) {
  const auto settings = settings_of(options);
  Json all = Json::array();
  for (const auto& op : find_ops(options)) all.push_back(state_of(op, settings));
  if (options.json) return std::puts(all.dump(2).c_str()), 0;
  for (const auto& op : all) {
    std::string backends;
    for (const auto& name : op["backends"])
      backends += (backends.empty() ? "" : ",") + name.get<std::string>();
    const auto reason = op["reason"].get<std::string>();
    std::printf("%-24s %-28s %-10s %s%s\n", op["name"].get<std::string>().c_str(),
                op["class_name"].get<std::string>().c_str(), backends.c_str(),
                op["state"].get<std::string>().c_str(),
                reason.empty() ? "" : (": " + reason).c_str());
  }
  return 0;
}

int build_ops(const OpsOptions& options) {
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
      std::printf("%s\n  key     %s\n  folder  %s\n  jobs    %d\n", plan.name.c_str(),
                  plan.key.c_str(), plan.folder.c_str(), plan.jobs);
      for (const auto& command : plan.commands) std::printf("  %s\n", command.c_str());
      continue;
    }
    Json result{{"name", name}};
    try {
      const auto found = build::find_or_build(op, settings);
      result.update(
          {{"state", build::to_string(found.origin)}, {"library", found.held.library.string()}});
      if (!options.json)
        std::printf("%s: %s, %s\n", name.c_str(), build::to_string(found.origin),
                    found.held.library.c_str());
    } catch (const Error& error) {
      // An op that was requested by name must be built. Without names, ops that this machine cannot
      // build are skipped.
      const bool skipped = options.names.empty() && error.code() == ErrorCode::unavailable;
      if (!skipped) code = 1;
      result.update({{"state", skipped ? "skipped" : "failed"},
                     {"error", to_string(error.code())},
                     {"reason", error.what()}});
      if (!options.json)
        std::fprintf(skipped ? stdout : stderr, "%s: %s: %s\n", name.c_str(),
                     skipped ? "skipped" : "failed", error.what());
    }
    std::fflush(stdout);
    all.push_back(std::move(result));
  }
  if (options.json) std::puts(all.dump(2).c_str());
  return code;
}

int show(const OpsOptions& options) {
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
  std::puts("built from");
  for (const auto& [name, value] : parts.items())
    std::printf("  %-40s %s\n", name.c_str(), value.get<std::string>().c_str());
  return 0;
}

int clean_cache(const OpsOptions& options) {
  const build::Cache cache(build::Cache::default_folder());
  std::pair<int, int> sum{0, 0};
  auto names = options.names;
  // An empty name means all ops, including ops that no longer exist.
  if (names.empty()) names = {""};
  for (auto& name : names)
    for (const auto& op : all_ops())
      if (name == op.description.class_name) name = op.description.name;
  for (const auto& name : names) {
    const auto [removed, kept] = cache.clean(name, options.force);
    sum.first += removed, sum.second += kept;
  }
  // Without a size limit, this removes only what killed builds left behind.
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
        "other machines may use this folder, so libraries loaded in the last 30 days count as in "
        "use; --force removes them");
  return 0;
}

void add_target(CLI::App& command, OpsOptions& options) {
  command
      .add_option("--backend", options.backend,
                  "Select the ops of this backend, even without a device")
      ->type_name("NAME");
  command
      .add_option("--target-arch", options.target_arch,
                  "Instruction set to compile for, as an -march value (ANYACCEL_OP_ARCH)")
      ->type_name("ARCH");
  command
      .add_option("--cuda-archs", options.cuda_archs,
                  "CUDA architectures to compile for, for example 80;9.0+PTX (ANYACCEL_CUDA_ARCHS)")
      ->type_name("LIST");
  command.add_option("--compiler", options.compiler, "C++ compiler to use")->type_name("PROGRAM");
}

CLI::App* add_action(CLI::App& app, OpsOptions& options, const char* name,
                     const char* description) {
  auto* command = app.add_subcommand(name, description);
  format_help(*command);
  command->add_flag("--json", options.json, "Print machine-readable output (JSON)");
  return command;
}

}  // namespace

int run_ops(std::span<const char* const> arguments) {
  OpsOptions options;
  const auto app = make_parser("ops", "List, build, describe and remove op libraries");
  app->footer("NAME is an op, such as cpu_adam, or its builder, such as CPUAdamBuilder.");
  app->require_subcommand(1);
  const auto* list =
      add_action(*app, options, "list", "List ops and show whether each is built or can be built");
  auto* build = add_action(*app, options, "build",
                           "Build the given ops (default: all ops for this machine's devices)");
  auto* info = add_action(*app, options, "info", "Show what an op's library is built from");
  auto* clean = add_action(*app, options, "clean",
                           "Remove unused libraries of the given ops (default: all ops)");
  for (auto* command : {build, clean})
    command->add_option("NAME", options.names, "Names of ops or builders")
        ->type_name("")
        ->expected(0, -1);
  info->add_option("NAME", options.names, "Name of an op or builder")
      ->type_name("")
      ->expected(1)
      ->required();
  for (auto* command : app->get_subcommands({}))
    if (command != clean) add_target(*command, options);
  build->add_flag("--force", options.force,
                  "Build even if a library exists, and use the new one from then on");
  build->add_flag("--verbose", options.verbose, "Print the commands that run");
  build->add_flag("--dry-run", options.dry_run,
                  "Print keys, folders and commands without running anything");
  clean->add_flag("--force", options.force,
                  "Also remove libraries that other machines may be using");
  if (const auto code = parse_words(*app, arguments)) return *code;
  options.building = build->parsed();
  if (list->parsed()) return list_ops(options);
  if (build->parsed()) return build_ops(options);
  return info->parsed() ? show(options) : clean_cache(options);
}

}  // namespace anyaccel::cli
