#include "build/flags.h"

#include "base/untrusted_text.h"
#include "build/flag_lists.h"
#include "build/flag_text.h"

namespace anyaccel::build {

namespace {

bool changes_results(std::string_view flag) {
  static constexpr std::string_view kStarts[] = {"-ffast-math",
                                                 "-Ofast",
                                                 "-funsafe-math-optimizations",
                                                 "-fassociative-math",
                                                 "-freciprocal-math",
                                                 "-ffinite-math-only",
                                                 "-fno-signed-zeros",
                                                 "-fcx-",
                                                 "-fexcess-precision",
                                                 "-fsingle-precision-constant",
                                                 "-ffp-contract",
                                                 "-ffp-model",
                                                 "-mrecip",
                                                 "-mdaz-ftz",
                                                 "-mpc",
                                                 "-mfpmath",
                                                 "--use_fast_math",
                                                 "-use_fast_math",
                                                 "-ftz",
                                                 "--ftz",
                                                 "-prec-",
                                                 "--prec-",
                                                 "--Ofast-compile",
                                                 "-Ofc"};
  return starts_with_one_of(kStarts, flag) ||
         (flag.starts_with("-m") && flag.find("=native") != flag.npos);
}

bool reads_files(std::string_view flag) {
  static constexpr std::string_view kStarts[] = {
      "-I", "-i",     "--include", "--imacros",        "-isystem",      "--sysroot",    "--prefix",
      "-B", "-specs", "--specs",   "--system-include", "--pre-include", "-pre-include", "@"};
  return starts_with_one_of(kStarts, flag);
}

FlagProblem problem_with(std::string_view flag) {
  auto inner = flag;
  if (!skip(inner, "-Xcompiler=")) skip(inner, "--compiler-options=");
  const auto shown = quoted_text(flag);
  if (flag.size() < 2 || flag.front() != '-')
    return {shown + " is not a flag", "flags that begin with -"};
  if (changes_results(inner))
    return {shown + " changes floating-point results, or makes them depend on the build machine",
            {}};
  if (reads_files(inner))
    return {shown + " reads files that the cache key does not cover",
            "`include = FOLDER` with a folder of the op, or `prefix_variable`"};
  return {shown + " is not in the list of accepted flags",
          "a flag from docs/reference/op-builders.md"};
}

}  // namespace

bool is_linker_flag(std::string_view flag) {
  return (flag.starts_with("-l") && !flag.starts_with("-lineinfo")) || flag.starts_with("-L") ||
         flag.starts_with("-Wl,");
}

bool is_safe_for_nvcc(std::string_view word) { return word.find_first_of("$`") == word.npos; }

std::optional<FlagProblem> find_flag_problem(const std::vector<std::string>& flags,
                                             FlagsOf compiler) {
  for (std::size_t i = 0; i < flags.size(); ++i) {
    const std::string& flag = flags[i];
    if (compiler == FlagsOf::host) {
      if (!is_host_flag(flag)) return problem_with(flag);
      continue;
    }
    if (!is_safe_for_nvcc(flag))
      return FlagProblem{quoted_text(flag) + " has a character that nvcc's shell expands", {}};
    if (is_nvcc_flag(flag)) continue;
    const auto equals = flag.find('=');
    const auto* const option = nvcc_option(std::string_view(flag).substr(0, equals));
    if (option == nullptr) return problem_with(flag);
    if (equals != flag.npos) {
      if (!option->good(std::string_view(flag).substr(equals + 1))) return problem_with(flag);
      continue;
    }
    if (i + 1 == flags.size()) return FlagProblem{quoted_text(flag) + " has no value", {}};
    if (!option->good(flags[++i])) return problem_with(flag + "=" + flags[i]);
  }
  return std::nullopt;
}

}  // namespace anyaccel::build
