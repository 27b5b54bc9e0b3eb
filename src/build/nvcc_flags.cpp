#include "build/flag_lists.h"
#include "build/flag_text.h"
#include "build/flags.h"

namespace anyaccel::build {

namespace {

/// True if all parts of a comma-separated list are accepted by `good`.
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
  // The text has the form `arch=compute_80,code=sm_80` or
  // `arch=compute_80,code=[sm_80,compute_80]`.
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
  if (skip(flag, "-dlcm=") || skip(flag, "--def-load-cache=") || skip(flag, "-dscm="))
    return is_word(flag);
  return false;
}

bool is_front_end_flag(std::string_view flag) {
  if (flag == "--display_error_number") return true;
  return (skip(flag, "--diag_suppress=") || skip(flag, "--diag_warning=")) && is_word(flag, "_");
}

bool is_list_of_numbers(std::string_view text) { return all_parts(text, is_number); }
bool is_bool(std::string_view text) { return text == "true" || text == "false"; }
bool is_true(std::string_view text) { return text == "true"; }
bool is_false(std::string_view text) { return text == "false"; }
bool is_stream(std::string_view text) {
  return text == "legacy" || text == "null" || text == "per-thread";
}
bool is_standard(std::string_view text) { return is_word(text, "+"); }
bool is_gpu(std::string_view text) {
  return is_architecture(text) || text == "all" || text == "all-major";
}
bool are_host_flags(std::string_view text) {
  // nvcc splits values at commas, so a linker flag would turn into several other flags.
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
                                       // Only nvcc's default values are accepted.
                                       {"-ftz", is_false},
                                       {"--ftz", is_false},
                                       {"-prec-div", is_true},
                                       {"--prec-div", is_true},
                                       {"-prec-sqrt", is_true},
                                       {"--prec-sqrt", is_true}};

}  // namespace

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
  // nvcc would treat the text after a comma as another macro.
  if (is_macro(flag)) return flag.find(',') == flag.npos;
  return is_linker_flag(flag) && !flag.starts_with("-Wl,") && is_harmless_for_linker(flag);
}

const NvccOption* nvcc_option(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kNvccOptions), std::end(kNvccOptions),
                                         [&](const auto& one) { return one.name == name; });
  return found == std::end(kNvccOptions) ? nullptr : found;
}

}  // namespace anyaccel::build
