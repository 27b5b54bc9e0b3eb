#include "build/flags.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/untrusted_text.h"

namespace anyaccel::build {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_number(std::string_view text) { return !text.empty() && std::all_of(text.begin(), text.end(), is_digit); }

bool is_word(std::string_view text, std::string_view more = "_-+.") {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [&](char c) { return is_letter(c) || is_digit(c) || more.find(c) != more.npos; });
}

template <typename List>
bool contains(const List& list, std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

template <typename List>
bool starts_with_one_of(const List& list, std::string_view text) {
  return std::any_of(std::begin(list), std::end(list), [&](std::string_view start) { return text.starts_with(start); });
}

/// Removes `start` from the front; false if it is not there.
bool skip(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

/// `-DNAME`, `-DNAME=value` and `-UNAME`. The value is the program's own business.
bool is_macro(std::string_view flag) {
  if (!skip(flag, "-D")) return skip(flag, "-U") && is_word(flag, "_");
  return !flag.empty() && (is_letter(flag.front()) || flag.front() == '_');
}

bool is_level(std::string_view flag) {
  static constexpr std::string_view kLevels[] = {"-O",  "-O0",   "-O1",    "-O2",    "-O3",    "-Os",
                                                 "-Og", "-Oz",   "-g",     "-g0",    "-g1",    "-g2",
                                                 "-g3", "-ggdb", "-ggdb1", "-ggdb2", "-ggdb3", "-gline-tables-only"};
  return contains(kLevels, flag) || (skip(flag, "-gdwarf-") && is_number(flag));
}

/// `-W...` without a comma: `-Wl,`, `-Wa,` and `-Wp,` hand flags to other programs.
bool is_warning(std::string_view flag) { return flag == "-w" || (skip(flag, "-W") && is_word(flag, "_-+.=")); }

/// Options of `-f` that may also be switched off by `-fno-`.
constexpr std::string_view kSwitches[] = {"aligned-new",
                                          "asynchronous-unwind-tables",
                                          "builtin",
                                          "char8_t",
                                          "common",
                                          "concepts",
                                          "coroutines",
                                          "data-sections",
                                          "delete-null-pointer-checks",
                                          "diagnostics-color",
                                          "diagnostics-show-caret",
                                          "diagnostics-show-option",
                                          "exceptions",
                                          "function-sections",
                                          "gnu-unique",
                                          "ident",
                                          "inline",
                                          "inline-functions",
                                          "inline-small-functions",
                                          "math-errno",
                                          "omit-frame-pointer",
                                          "openmp",
                                          "openmp-simd",
                                          "optimize-sibling-calls",
                                          "peel-loops",
                                          "permissive",
                                          "plt",
                                          "prefetch-loop-arrays",
                                          "rounding-math",
                                          "rtti",
                                          "semantic-interposition",
                                          "signed-char",
                                          "sized-deallocation",
                                          "slp-vectorize",
                                          "stack-clash-protection",
                                          "stack-protector",
                                          "stack-protector-all",
                                          "stack-protector-strong",
                                          "strict-aliasing",
                                          "strict-overflow",
                                          "threadsafe-statics",
                                          "trapping-math",
                                          "tree-loop-vectorize",
                                          "tree-slp-vectorize",
                                          "tree-vectorize",
                                          "unroll-all-loops",
                                          "unroll-loops",
                                          "unsigned-char",
                                          "unwind-tables",
                                          "vect-cost-model",
                                          "vectorize",
                                          "visibility-inlines-hidden",
                                          "wrapv"};

/// Options of `-f` in one form: the other one breaks the library or relaxes arithmetic.
constexpr std::string_view kExact[] = {"PIC",
                                       "pic",
                                       "PIE",
                                       "pie",
                                       "signed-zeros",
                                       "no-associative-math",
                                       "no-cx-limited-range",
                                       "no-fast-math",
                                       "no-finite-math-only",
                                       "no-lto",
                                       "no-reciprocal-math",
                                       "no-unsafe-math-optimizations",
                                       "excess-precision=standard",
                                       "fp-contract=off",
                                       "fp-contract=on",
                                       "fp-model=precise",
                                       "fp-model=strict",
                                       "sycl"};

constexpr std::string_view kNumbers[] = {"bracket-depth=",
                                         "constexpr-depth=",
                                         "constexpr-loop-limit=",
                                         "constexpr-ops-limit=",
                                         "constexpr-steps=",
                                         "error-limit=",
                                         "inline-limit=",
                                         "max-errors=",
                                         "message-length=",
                                         "sycl-max-parallel-link-jobs=",
                                         "template-backtrace-limit=",
                                         "template-depth=",
                                         "template-depth-"};
constexpr std::string_view kWords[] = {"cf-protection=", "diagnostics-color=", "no-builtin-", "openmp=",
                                       "sycl-targets=",  "vect-cost-model=",   "visibility="};

bool has_value(std::string_view text, std::string_view start, bool (*good)(std::string_view)) {
  return skip(text, start) && good(text);
}

bool is_code_generation(std::string_view flag) {
  if (!skip(flag, "-f")) return false;
  if (contains(kExact, flag) || contains(kSwitches, flag)) return true;
  if (flag.starts_with("no-") && contains(kSwitches, flag.substr(3))) return true;
  for (const auto start : kNumbers)
    if (has_value(flag, start, is_number)) return true;
  for (const auto start : kWords)
    if (has_value(flag, start, [](std::string_view value) { return is_word(value); })) return true;
  return false;
}

/// An instruction set by its name.
bool is_instruction_set(std::string_view flag) {
  if (!skip(flag, "-m")) return false;
  for (const std::string_view start : {"arch=", "tune=", "cpu="})
    if (has_value(flag, start, [](auto value) { return is_word(value) && !value.starts_with("native"); })) return true;
  for (const std::string_view start : {"prefer-vector-width=", "sve-vector-bits="})
    if (has_value(flag, start, [](auto value) { return is_word(value); })) return true;
  if (flag == "64" || flag == "fpmath=sse") return true;
  if (flag.starts_with("no-")) flag.remove_prefix(3);
  // Families of names: avx512bw, sse4.2, amx-int8, avx10.1.
  static constexpr std::string_view kFamilies[] = {"avx", "sse", "amx-", "bmi", "xsave"};
  static constexpr std::string_view kNames[] = {
      "adx",    "aes",    "altivec", "cx16",  "f16c", "fma",   "fma4", "gfni",       "lzcnt", "mmx",       "movbe",
      "pclmul", "popcnt", "prfchw",  "rdrnd", "sha",  "ssse3", "vaes", "vpclmulqdq", "vsx",   "vzeroupper"};
  return contains(kNames, flag) || (starts_with_one_of(kFamilies, flag) && is_word(flag, ".-"));
}

/// What real builders pass to the linker, although their flags only compile.
bool is_harmless_for_linker(std::string_view flag) {
  constexpr std::string_view kPath = "_-+./:$";
  if (skip(flag, "-l") || skip(flag, "-L")) return is_word(flag, kPath);
  if (flag == "-shared") return true;
  if (!skip(flag, "-Wl,")) return false;
  static constexpr std::string_view kAlone[] = {
      "--as-needed",          "--no-as-needed",     "--disable-new-dtags", "--enable-new-dtags", "--export-dynamic",
      "-export-dynamic",      "--gc-sections",      "--no-undefined",      "--exclude-libs",     "-Bsymbolic",
      "-Bsymbolic-functions", "--no-whole-archive", "--whole-archive",     "--start-group",      "--end-group"};
  static constexpr std::string_view kWithValue[] = {"-rpath", "--rpath", "-soname", "-z", "-rpath-link"};
  bool value = false;
  for (bool more = true; more;) {
    const auto comma = flag.find(',');
    const auto word = flag.substr(0, comma);
    more = comma != flag.npos;
    if (more) flag.remove_prefix(comma + 1);
    if (value) {
      value = false;
      if (!is_word(word, kPath) || word.starts_with('-')) return false;
      continue;
    }
    value = contains(kWithValue, word);
    const auto equals = word.find('=');
    const bool joined =
        equals != word.npos && contains(kWithValue, word.substr(0, equals)) && is_word(word.substr(equals + 1), kPath);
    if (!value && !joined && !contains(kAlone, word)) return false;
  }
  return true;  // `--rpath` may end a list: DeepSpeed's builder for npu writes it so
}

bool is_host_flag(std::string_view flag) {
  static constexpr std::string_view kPlain[] = {"-pthread",         "-pipe",    "-pedantic",
                                                "-pedantic-errors", "-qopenmp", "-fiopenmp"};
  const auto standard = [](std::string_view text) { return skip(text, "-std=") && is_word(text, "+"); };
  return contains(kPlain, flag) || is_level(flag) || is_macro(flag) || standard(flag) || is_code_generation(flag) ||
         is_instruction_set(flag) || is_warning(flag) || is_harmless_for_linker(flag);
}

/// All parts of a list that commas separate.
template <typename Good>
bool all_parts(std::string_view text, Good&& good) {
  for (;;) {
    const auto comma = text.find(',');
    if (!good(text.substr(0, comma))) return false;
    if (comma == text.npos) return true;
    text.remove_prefix(comma + 1);
  }
}

bool is_architecture(std::string_view text) {
  const auto name = [](std::string_view part) {
    return is_word(part, "_") && (part.starts_with("sm_") || part.starts_with("compute_"));
  };
  if (!text.starts_with("arch=")) return all_parts(text, name);
  // arch=compute_80,code=sm_80 or code=[sm_80,sm_86,compute_80]
  const auto code = text.find(",code=");
  if (code == text.npos || !name(text.substr(5, code - 5))) return false;
  auto codes = text.substr(code + 6);
  if (codes.starts_with('[') && codes.ends_with(']')) codes = codes.substr(1, codes.size() - 2);
  return all_parts(codes, name);
}

bool is_ptxas_flag(std::string_view flag) {
  static constexpr std::string_view kPlain[] = {"-v",
                                                "--verbose",
                                                "-O0",
                                                "-O1",
                                                "-O2",
                                                "-O3",
                                                "-O4",
                                                "-w",
                                                "--warn-spills",
                                                "--warn-on-spills",
                                                "-warn-spills",
                                                "--warn-lmem-usage",
                                                "-warn-lmem-usage"};
  if (contains(kPlain, flag)) return true;
  if (skip(flag, "-dlcm=") || skip(flag, "--def-load-cache=") || skip(flag, "-dscm=")) return is_word(flag);
  return false;
}

bool is_front_end_flag(std::string_view flag) {
  if (flag == "--display_error_number") return true;
  return (skip(flag, "--diag_suppress=") || skip(flag, "--diag_warning=")) && is_word(flag, "_");
}

/// Options of nvcc with a value, in the next word or after `=`.
struct NvccOption {
  std::string_view name;
  bool (*good)(std::string_view);
};
bool is_list_of_numbers(std::string_view text) { return all_parts(text, is_number); }
bool is_bool(std::string_view text) { return text == "true" || text == "false"; }
bool is_true(std::string_view text) { return text == "true"; }
bool is_false(std::string_view text) { return text == "false"; }
bool is_stream(std::string_view text) { return text == "legacy" || text == "null" || text == "per-thread"; }
bool is_standard(std::string_view text) { return is_word(text, "+"); }
bool is_gpu(std::string_view text) { return is_architecture(text) || text == "all" || text == "all-major"; }
bool are_host_flags(std::string_view text) {
  // nvcc cuts at commas, so flags of the linker would become other flags.
  return all_parts(text, [](auto flag) { return !is_linker_flag(flag) && is_host_flag(flag); });
}
bool are_ptxas_flags(std::string_view text) { return all_parts(text, is_ptxas_flag); }
bool are_front_end_flags(std::string_view text) { return all_parts(text, is_front_end_flag); }
bool is_warning_kind(std::string_view text) {
  return all_parts(text, [](auto part) { return is_word(part); });
}

constexpr NvccOption kNvccOptions[] = {{"-gencode", is_architecture},
                                       {"--generate-code", is_architecture},
                                       {"-arch", is_gpu},
                                       {"--gpu-architecture", is_gpu},
                                       {"-code", is_architecture},
                                       {"--gpu-code", is_architecture},
                                       {"-Xcompiler", are_host_flags},
                                       {"--compiler-options", are_host_flags},
                                       {"-Xptxas", are_ptxas_flags},
                                       {"--ptxas-options", are_ptxas_flags},
                                       {"-Xcudafe", are_front_end_flags},
                                       {"-std", is_standard},
                                       {"--std", is_standard},
                                       {"-maxrregcount", is_number},
                                       {"--maxrregcount", is_number},
                                       {"-t", is_number},
                                       {"--threads", is_number},
                                       {"-split-compile", is_number},
                                       {"--split-compile", is_number},
                                       {"-ftemplate-depth", is_number},
                                       {"--ftemplate-depth", is_number},
                                       {"-ftemplate-backtrace-limit", is_number},
                                       {"--ftemplate-backtrace-limit", is_number},
                                       {"-diag-suppress", is_list_of_numbers},
                                       {"--diag-suppress", is_list_of_numbers},
                                       {"-diag-warn", is_list_of_numbers},
                                       {"--diag-warn", is_list_of_numbers},
                                       {"-default-stream", is_stream},
                                       {"--default-stream", is_stream},
                                       {"-Werror", is_warning_kind},
                                       {"--Werror", is_warning_kind},
                                       {"-fmad", is_bool},
                                       {"--fmad", is_bool},
                                       // The values that are nvcc's default.
                                       {"-ftz", is_false},
                                       {"--ftz", is_false},
                                       {"-prec-div", is_true},
                                       {"--prec-div", is_true},
                                       {"-prec-sqrt", is_true},
                                       {"--prec-sqrt", is_true}};

bool is_nvcc_flag(std::string_view flag) {
  static constexpr std::string_view kPlain[] = {"-O0",
                                                "-O1",
                                                "-O2",
                                                "-O3",
                                                "-g",
                                                "-w",
                                                "-lineinfo",
                                                "--generate-line-info",
                                                "-restrict",
                                                "--restrict",
                                                "-expt-relaxed-constexpr",
                                                "--expt-relaxed-constexpr",
                                                "-expt-extended-lambda",
                                                "--expt-extended-lambda",
                                                "-extended-lambda",
                                                "--extended-lambda",
                                                "-allow-unsupported-compiler",
                                                "--allow-unsupported-compiler",
                                                "-res-usage",
                                                "--resource-usage",
                                                "-source-in-ptx",
                                                "--source-in-ptx",
                                                "-extra-device-vectorization",
                                                "--extra-device-vectorization",
                                                "-Wreorder",
                                                "--Wreorder",
                                                "-Wno-deprecated-gpu-targets",
                                                "--Wno-deprecated-gpu-targets",
                                                "-Wno-deprecated-declarations",
                                                "--Wno-deprecated-declarations",
                                                "-err-no",
                                                "--display-error-number",
                                                "-shared",
                                                "--shared"};
  if (contains(kPlain, flag)) return true;
  // A comma would begin another macro.
  if (is_macro(flag)) return flag.find(',') == flag.npos;
  return is_linker_flag(flag) && !flag.starts_with("-Wl,") && is_harmless_for_linker(flag);
}

const NvccOption* nvcc_option(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kNvccOptions), std::end(kNvccOptions), [&](const auto& one) { return one.name == name; });
  return found == std::end(kNvccOptions) ? nullptr : found;
}

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
  return starts_with_one_of(kStarts, flag) || (flag.starts_with("-m") && flag.find("=native") != flag.npos);
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
  if (flag.size() < 2 || flag.front() != '-') return {shown + " is not a flag", "words that begin with -"};
  if (changes_results(inner))
    return {shown + " changes floating-point results, or makes them depend on the machine that compiles", {}};
  if (reads_files(inner))
    return {shown + " reads files that the cache key does not cover",
            "`include = FOLDER` below the op's, or `prefix_variable`"};
  return {shown + " is not in the list of accepted flags", "one of those in docs/ops.md"};
}

}  // namespace

bool is_linker_flag(std::string_view flag) {
  return (flag.starts_with("-l") && !flag.starts_with("-lineinfo")) || flag.starts_with("-L") ||
         flag.starts_with("-Wl,");
}

bool is_safe_for_nvcc(std::string_view word) { return word.find_first_of("$`") == word.npos; }

std::optional<FlagProblem> find_flag_problem(const std::vector<std::string>& words, FlagsOf compiler) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& flag = words[i];
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
    if (i + 1 == words.size()) return FlagProblem{quoted_text(flag) + " has no value", {}};
    if (!option->good(words[++i])) return problem_with(flag + "=" + words[i]);
  }
  return std::nullopt;
}

}  // namespace anyaccel::build
