#include "build/plan.h"

#include <sstream>

#include "anyaccel/error.h"
#include "anyaccel/sdk/plugin_build.h"
#include "base/untrusted_text.h"
#include "build/cuda.h"
#include "build/flags.h"
#include "build/prefix.h"

namespace anyaccel::build {

namespace {

#define ANYACCEL_TORCH_CUDA "libtorch_cuda.so"

namespace fs = std::filesystem;

/// nvcc starts the host compiler through a shell, which would execute commands in folder names.
void require_safe_for_nvcc(const std::vector<std::string>& command) {
  for (const auto& word : command)
    if (!is_safe_for_nvcc(word))
      throw Error(ErrorCode::unavailable, "op builders",
                  {.what = "nvcc cannot use the argument " + quoted_text(word) +
                           ", because the shell that nvcc starts expands $ and backquotes",
                   .hint = "use folders whose names do not contain these characters"});
}

void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::vector<std::string> include_flags(const Op& op, const Paths& paths, const LibTorch* torch) {
  std::vector<std::string> out{"-I" + op.source_folder().string()};
  for (const auto& folder : op.description.includes)
    out.push_back("-I" + (op.folder() / folder).string());
  for (const auto& folder : paths.includes) out.push_back("-I" + folder.string());
  if (const auto prefix = prefix_of(op.description); !prefix.empty())
    append(out, {"-isystem", prefix + "/include"});
  if (!op.description.python.empty()) append(out, {"-isystem", op.description.python});
  if (torch != nullptr)
    for (const auto& folder : torch->includes()) append(out, {"-isystem", folder.string()});
  return out;
}

/// The number makes names unique, because all object files are in one folder.
std::string object_name(const Source& source, std::size_t number) {
  return std::to_string(number) + "-" + fs::path(source.files.back()).filename().string() + ".o";
}

std::vector<std::string> library_flags(const Op& op, const LibTorch* torch) {
  std::vector<std::string> out;
  if (const auto prefix = prefix_of(op.description); !prefix.empty())
    // Use RPATH, because RUNPATH would not apply to the dependencies of the libraries in the
    // prefix.
    append(out, {"-L" + prefix + "/lib", "-Wl,--disable-new-dtags,-rpath," + prefix + "/lib"});
  for (const auto& name : op.description.links) out.push_back("-l" + name);
  // Do not add an RPATH for LibTorch: the process has already loaded it, possibly from another
  // folder.
  if (torch == nullptr) return out;
  append(out, {"-L" + torch->libraries().string(), "-ltorch_cpu", "-lc10"});
  if (!op.description.python.empty()) out.push_back("-ltorch_python");
  // Use the CUDA runtime that comes with libtorch_cuda, so that the op and LibTorch share one
  // runtime. A LibTorch without CUDA can still compile the op for another machine.
  if (op.description.needs_nvcc() && !torch->cuda.empty())
    append(out, {"-Wl,--no-as-needed", "-l:" ANYACCEL_TORCH_CUDA});
  return out;
}

}  // namespace

// The first line of GCC's --version is "<program> (<package>) <version>"; that of Clang has no
// parentheses.
std::vector<std::string> gcc_flags(const std::string& identity, std::string_view architecture) {
  if (!identity.substr(identity.find(' ') + 1).starts_with('(')) return {};
  // Disable GCC's garbage collection below 1 GB of heap. It takes about 10% of the compile time of
  // sources that include torch's headers.
  std::vector<std::string> out{"--param=ggc-min-heapsize=1000000"};
  // On ARM, GCC 12 drops half of the partial results of some vectorized maximums, if it also
  // vectorizes the loop's epilogue. CMakeLists.txt files use the same flag (AnyAccelCompile.cmake).
  if (architecture == "aarch64") out.emplace_back("--param=vect-epilogues-nomask=0");
  return out;
}

std::string library_name(const Description& description) {
  // The suffix is needed because an op may have one description for the host and one for CUDA. Both
  // can be prebuilt.
  return "libanyaccel_op_" + description.name + (description.needs_nvcc() ? "_cuda" : "") + ".so";
}

std::vector<std::string> sanitizer_flags() {
  std::vector<std::string> out;
  std::istringstream flags(ANYACCEL_SANITIZE_FLAGS);
  for (std::string word; flags >> word;) out.push_back(word);
  return out;
}

std::vector<std::string> cuda_flags(const Target& target) {
  auto archs = target.cuda_archs;
  if (archs.empty()) archs.assign(std::begin(kDefaultCudaArchs), std::end(kDefaultCudaArchs));
  std::vector<std::string> out;
  for (auto arch : archs) {
    const bool ptx = arch.ends_with("+PTX");
    if (ptx) arch.resize(arch.size() - 4);
    const auto code = [&](const char* kind) {
      return std::string("arch=compute_").append(arch).append(",code=").append(kind).append(arch);
    };
    append(out, {"-gencode", code("sm_")});
    if (ptx) append(out, {"-gencode", code("compute_")});
  }
  return out;
}

std::vector<std::string> source_flags(const Op& op, const Source& source, const Target& target) {
  std::vector<std::string> host{"-fPIC", "-fvisibility=hidden"};
  if (!target.arch.empty()) host.push_back("-march=" + target.arch);
  std::vector<std::string> out;
  if (source.is_cuda()) {
    out = {"-std=c++20", "-O2", "-DNDEBUG"};
    for (const auto& flag : host) append(out, {"-Xcompiler", flag});
    append(out, cuda_flags(target));
  } else {
    // The description's flags come after these, so they can override -O2.
    if (!source.files.back().ends_with(".c")) out = {"-std=c++20", "-fvisibility-inlines-hidden"};
    append(out, {"-O2", "-DNDEBUG", "-Wall", "-Wextra", "-Wno-missing-field-initializers"});
    append(out, host);
    append(out, sanitizer_flags());
  }
  // torch.utils.cpp_extension defines the same macros.
  if (!op.description.python.empty())
    append(out,
           {"-DTORCH_EXTENSION_NAME=" + op.description.name, "-DTORCH_API_INCLUDE_EXTENSION_H"});
  append(out, source.is_cuda() ? host_flags_for_nvcc(op.description.flags) : op.description.flags);
  append(out, source.flags);
  return out;
}

Plan make_plan(const Op& op, const Paths& paths, const LibTorch* torch, const Target& target,
               const Tools& tools, const fs::path& folder) {
  Plan out{.library = folder / library_name(op.description)};
  const auto includes = include_flags(op, paths, torch);
  for (const auto& source : op.description.sources) {
    const auto from = folder_of(source, op, paths);
    Step step{.source = source.name(), .object = folder / object_name(source, out.steps.size())};
    if (!tools.ccache.empty()) step.command.push_back(tools.ccache);
    if (source.is_cuda()) {
      append(step.command, {tools.nvcc, "-ccbin", tools.compiler});
    } else {
      step.command.push_back(tools.compiler);
      append(step.command, gcc_flags(tools.compiler_identity, ANYACCEL_ARCHITECTURE));
      if (source.files.back().ends_with(".c")) append(step.command, {"-x", "c"});
    }
    append(step.command, source_flags(op, source, target));
    append(step.command, includes);
    append(step.command, {"-MD", "-MF", step.list().string()});
    const auto path = [&](const std::string& file) {
      return (from / file).lexically_normal().string();
    };
    for (std::size_t i = 0; i + 1 < source.files.size(); ++i)
      append(step.command, {"-include", path(source.files[i])});
    append(step.command, {"-c", path(source.files.back()), "-o", step.object.string()});
    if (source.is_cuda()) require_safe_for_nvcc(step.command);
    out.steps.push_back(std::move(step));
  }
  out.link = {tools.compiler, "-shared", sanitizer_flags().empty() ? "-s" : "-g1",
              "-Wl,-soname," + library_name(op.description), "-Wl,--as-needed"};
  append(out.link, sanitizer_flags());
  for (const auto& step : out.steps) out.link.push_back(step.object.string());
  append(out.link, library_flags(op, torch));
  append(out.link, {"-o", out.library.string()});
  return out;
}

std::vector<Question> make_questions(const Op& op, const Paths& paths, const Tools& tools) {
  std::vector<Question> out;
  const auto includes = include_flags(op, paths, nullptr);
  for (const auto& [header, package] : op.description.headers) {
    Question question{.what = "the header " + header,
                      .hint = package.empty() ? "" : "install " + package};
    question.command = {tools.compiler, "-std=c++20"};
    append(question.command, includes);
    // Only preprocess, because parsing a large header takes about a second.
    append(question.command,
           {"-M", "-MF", "/dev/null", "-x", "c++", "-include", header, "/dev/null"});
    out.push_back(std::move(question));
  }
  for (const auto& name : op.description.links) {
    Question question{.what = "the library " + name, .hint = "install its development package"};
    question.command = {tools.compiler, "-shared", "-x", "c++", "/dev/null"};
    if (const auto prefix = prefix_of(op.description); !prefix.empty())
      question.command.push_back("-L" + prefix + "/lib");
    append(question.command, {"-l" + name, "-o", "/dev/null"});
    out.push_back(std::move(question));
  }
  return out;
}

}  // namespace anyaccel::build
