#include "build/flag_lists.h"
#include "build/flag_text.h"

namespace anyaccel::build {

namespace {

bool is_level(std::string_view flag) {
  static constexpr std::string_view kLevels[] = {
      "-O",  "-O0", "-O1", "-O2", "-O3",   "-Os",    "-Og",    "-Oz",    "-g",
      "-g0", "-g1", "-g2", "-g3", "-ggdb", "-ggdb1", "-ggdb2", "-ggdb3", "-gline-tables-only"};
  return contains(kLevels, flag) || (skip(flag, "-gdwarf-") && is_number(flag));
}

/// True for `-W...` without a comma, because `-Wl,`, `-Wa,` and `-Wp,` pass flags to other
/// programs.
bool is_warning(std::string_view flag) {
  return flag == "-w" || (skip(flag, "-W") && is_word(flag, "_-+.="));
}

/// `-f` options whose `-fno-` form is also accepted.
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

/// `-f` options accepted only in this form, because the opposite form breaks the library or relaxes
/// arithmetic.
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
constexpr std::string_view kWords[] = {"cf-protection=", "diagnostics-color=", "no-builtin-",
                                       "openmp=",        "sycl-targets=",      "vect-cost-model=",
                                       "visibility="};

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

/// True for flags that select an instruction set.
bool is_instruction_set(std::string_view flag) {
  if (!skip(flag, "-m")) return false;
  for (const std::string_view start : {"arch=", "tune=", "cpu="})
    if (has_value(flag, start,
                  [](auto value) { return is_word(value) && !value.starts_with("native"); }))
      return true;
  for (const std::string_view start :
       {"prefer-vector-width=", "sve-vector-bits=", "branch-protection="})
    if (has_value(flag, start, [](auto value) { return is_word(value); })) return true;
  if (flag == "64" || flag == "fpmath=sse") return true;
  if (flag.starts_with("no-")) flag.remove_prefix(3);
  // Prefixes of names such as avx512bw, sse4.2, amx-int8, avx10.1.
  static constexpr std::string_view kFamilies[] = {"avx", "sse", "amx-", "bmi", "xsave"};
  static constexpr std::string_view kNames[] = {
      "adx",    "aes",        "altivec", "cx16",      "f16c",  "fma",
      "fma4",   "gfni",       "lzcnt",   "mmx",       "movbe", "outline-atomics",
      "pclmul", "popcnt",     "prfchw",  "rdrnd",     "sha",   "ssse3",
      "vaes",   "vpclmulqdq", "vsx",     "vzeroupper"};
  return contains(kNames, flag) || (starts_with_one_of(kFamilies, flag) && is_word(flag, ".-"));
}

}  // namespace

bool is_macro(std::string_view flag) {
  if (!skip(flag, "-D")) return skip(flag, "-U") && is_word(flag, "_");
  return !flag.empty() && (is_letter(flag.front()) || flag.front() == '_');
}

bool is_harmless_for_linker(std::string_view flag) {
  constexpr std::string_view kPath = "_-+./:$";
  if (skip(flag, "-l") || skip(flag, "-L")) return is_word(flag, kPath);
  if (flag == "-shared") return true;
  if (!skip(flag, "-Wl,")) return false;
  static constexpr std::string_view kAlone[] = {
      "--as-needed",      "--no-as-needed",  "--disable-new-dtags",  "--enable-new-dtags",
      "--export-dynamic", "-export-dynamic", "--gc-sections",        "--no-undefined",
      "--exclude-libs",   "-Bsymbolic",      "-Bsymbolic-functions", "--no-whole-archive",
      "--whole-archive",  "--start-group",   "--end-group"};
  static constexpr std::string_view kWithValue[] = {"-rpath", "--rpath", "-soname", "-z",
                                                    "-rpath-link"};
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
    const bool joined = equals != word.npos && contains(kWithValue, word.substr(0, equals)) &&
                        is_word(word.substr(equals + 1), kPath);
    if (!value && !joined && !contains(kAlone, word)) return false;
  }
  return true;  // a list may end with `--rpath`, as in DeepSpeed's npu builder
}

bool is_host_flag(std::string_view flag) {
  static constexpr std::string_view kPlain[] = {"-pthread",         "-pipe",    "-pedantic",
                                                "-pedantic-errors", "-qopenmp", "-fiopenmp"};
  const auto standard = [](std::string_view text) {
    return skip(text, "-std=") && is_word(text, "+");
  };
  return contains(kPlain, flag) || is_level(flag) || is_macro(flag) || standard(flag) ||
         is_code_generation(flag) || is_instruction_set(flag) || is_warning(flag) ||
         is_harmless_for_linker(flag);
}

}  // namespace anyaccel::build
