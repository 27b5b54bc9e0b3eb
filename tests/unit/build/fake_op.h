// Sets up an op with two sources, and a shell script as its compiler. The script concatenates
// sources, logs its calls, and can simulate delays and errors. All files are in a temporary folder
// whose name requires quoting.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/file.h"
#include "build/service.h"
#include "unit/build/tiny_elf.h"
#include "unit/llm/temporary_folder.h"

namespace anyaccel::build {

class FakeOp {
 public:
  explicit FakeOp(const std::string& more = "torch = no\n") {
    folder_.write("it's/calls", "");
    write("bin/cxx", R"sh(#!/bin/sh
root="$(dirname "$0")/.."
echo "$*" >> "$root/calls"
[ "$1" = --version ] && { [ -e "$root/hangs" ] && sleep 60; cat "$root/version"; exit 0; }
out= source= before= list=
for word; do
  case $before in -o) out=$word;; -c) source=$word;; -MF) list=$word;; -include) [ -e "$root/no room" ] && { echo "as: No space left on device"; exit 1; }; [ -e "$root/has/$word" ] || exit 1; exit 0;; esac
  before=$word
done
[ -e "$root/slow" ] && { echo $$ >> "$root/pids"; sleep "$(cat "$root/slow")"; }
[ -e "$root/endless" ] && { yes | head -c 40000000; exit 1; }
if [ -n "$source" ]; then
  grep -q WRONG "$source" && { echo "a.cpp:1: this is WRONG"; exit 3; }
  # Like GCC: print the message while the disk is full, then remove the temporary file.
  if [ -e "$root/temporary" ] && ! cat "$root/temporary" > "$TMPDIR/cc.s" 2> /dev/null; then
    echo "cc1plus: fatal error: error writing to $TMPDIR/cc.s: No space left on device" >&2
    rm -f "$TMPDIR/cc.s"
    exit 1
  fi
  rm -f "$TMPDIR/cc.s"
  [ -e "$root/says" ] && { cat "$root/says"; exit 1; }
  cat "$source" > "$out" || exit 1
  [ -n "$list" ] && echo "$out: $source" $(cat "$root/external" 2> /dev/null) > "$list"
else
  [ -e "$root/badlink" ] && { echo "undefined reference"; exit 4; }
  for word; do case $word in *.o) cat "$word";; esac; done > "$out" || exit 1
fi
exit 0
)sh");
    ::chmod(path("bin/cxx").c_str(), 0755);
    write("version", "fake 1.0\n");
    write("ops/tiny/a.cpp", "#include \"a.h\"\nfirst\n");
    write("ops/tiny/a.h", "header\n");
    write("ops/tiny/b.cpp", "second\n");
    describe(more);
    settings.paths = {.ops = path("ops"),
                      .includes = {path("include")},
                      .prebuilt = {path("prebuilt")},
                      .libraries = path("lib")};
    settings.torch_prefix = path("torch");
    settings.compiler = path("bin/cxx").string();
    settings.cache = path("cache");
    write("torch/include/torch/headeronly/version.h",
          "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 13\n#define "
          "TORCH_VERSION_PATCH 0\n");
    write("torch/lib/libc10.so", "ten");
    write("torch/lib/libtorch_cpu.so", std::string(100'000, 'x'));
  }

  std::filesystem::path path(const std::string& name) const { return folder_ / ("it's/" + name); }
  void write(const std::string& name, const std::string& text) const {
    folder_.write("it's/" + name, text);
  }
  void describe(const std::string& more) const {
    write("ops/tiny/tiny.op",
          "anyaccel_op = 1\nclass_name = TinyBuilder\nname = tiny\nbackends = *\nsource = "
          "a.cpp\nsource = b.cpp\n" +
              more);
  }
  Op op() const { return read_op(path("ops/tiny/tiny.op")); }
  Found load() const { return find_or_build(op(), settings); }

  /// Adds a fake nvcc from the given CUDA release.
  void add_nvcc(const std::string& release) const {
    write("cuda/version",
          "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release " + release +
              ", V" + release + ".88\nBuild cuda\n");
    write("cuda/bin/nvcc", read_file(path("bin/cxx")) + "# " + release + "\n");
    ::chmod(path("cuda/bin/nvcc").c_str(), 0755);
  }
  /// Makes the fake LibTorch require the CUDA runtime of this major version.
  void add_cuda_to_libtorch(const std::string& version) const {
    const auto major = version.substr(0, version.find('.'));
    write("torch/lib/libc10_cuda.so",
          tiny_elf("id of libc10_cuda", {"libc.so.6", "libcudart-0123abcd.so." + major}));
    write("torch/lib/libtorch_cuda.so", tiny_elf("id of libtorch_cuda", {}));
    write("torch/version.py", "__version__ = '2.13.0+cu'\ndebug = False\ncuda: Optional[str] = '" +
                                  version + "'\nhip = None\n");
  }

  /// Number of compiler runs whose command contains `word`, or of all runs if `word` is empty.
  int calls(const std::string& word = {}) const {
    std::ifstream file(path("calls"));
    int count = 0;
    for (std::string line; std::getline(file, line);)
      count += (line + " ").find(word) != std::string::npos ? 1 : 0;
    return count;
  }
  /// Number of cache entries whose name starts with `prefix`.
  int in_cache(const std::string& prefix) const {
    std::error_code ignored;
    int count = 0;
    for (const auto& item : std::filesystem::directory_iterator(settings.cache, ignored))
      count += item.path().filename().string().starts_with(prefix) ? 1 : 0;
    return count;
  }

  Settings settings;

 private:
  llm::TemporaryFolder folder_;
};

}  // namespace anyaccel::build
