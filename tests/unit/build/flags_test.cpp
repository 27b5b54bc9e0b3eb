// Tests which compiler flags a description may use.
#include "build/flags.h"

#include "build/description.h"
#include "build/plan.h"
#include "unit/support/expect_error.h"

namespace anyaccel::build {

namespace {

Description with(const std::string& line) {
  return parse_description(
      "anyaccel_op = 1\nclass_name = TinyBuilder\nname = tiny\nbackends = *\nsource = a.cpp\n" +
      line + "\n");
}

class AcceptedFlags : public testing::TestWithParam<const char*> {};

// Fails if a flag that DeepSpeed's or torch's op builders pass to the compiler is rejected.
TEST_P(AcceptedFlags, Parse) { EXPECT_NO_THROW(with(GetParam())); }
INSTANTIATE_TEST_SUITE_P(
    All, AcceptedFlags,
    testing::Values("flag = -O3 -std=c++17 -g -Wno-reorder -fopenmp -D__AVX512__ -D__ENABLE_CUDA__ "
                    "-DBF16_AVAILABLE",
                    "flag = -Wall -O0 -shared -fPIC -Wno-reorder -laio -L/usr/local/cuda/lib64 "
                    "-lcudart -lcublas",
                    "flag = -fstack-protector-all -Wl,-z,relro,-z,now,-z,noexecstack "
                    "-Wl,--disable-new-dtags,--rpath",
                    "flag = -DTORCH_API_INCLUDE_EXTENSION_H -D_GLIBCXX_USE_CXX11_ABI=1 "
                    "-DROCM_VERSION_MAJOR=6 -U_FORTIFY_SOURCE",
                    "flag = -fsycl -fsycl-targets=spir64 -gdwarf-4 -DMKL_ILP64 "
                    "-fno-strict-aliasing -Wl,-export-dynamic",
                    "flag = -Wl,-rpath,/opt/lib -Wl,-rpath=$ORIGIN/../lib -Wl,--as-needed "
                    "-Wl,--no-as-needed -l:libx.so",
                    "flag = -march=x86-64-v3 -mtune=generic -mavx512vnni -mno-avx10.1 -mamx-int8 "
                    "-mprefer-vector-width=512",
                    "flag = -march=armv8.2-a+dotprod -mbranch-protection=pac-ret+leaf "
                    "-mno-outline-atomics",
                    "flag = -mcpu=neoverse-v1+sve -fvisibility=hidden -fno-math-errno "
                    "-fno-trapping-math -ffp-contract=off",
                    "flag = -funroll-loops -fno-tree-vectorize -ftemplate-depth=2048 "
                    "-fconstexpr-ops-limit=9 -pthread "
                    "-Werror=return-type",
                    "flag = -DTEXT=\"a,b@/c|d\" -D_HAS(x)=x -fdiagnostics-color=always",
                    "source = b.cpp: -mavx2 -mfma -O1",
                    "source = k.cu: -O3 -std=c++17 -U__CUDA_NO_HALF_OPERATORS__ "
                    "--expt-relaxed-constexpr --threads=8 -lineinfo",
                    "source = k.cu: -gencode=arch=compute_80,code=sm_80 -gencode "
                    "arch=compute_90a,code=[sm_90a,compute_90a] -t 4",
                    "source = k.cu: --ptxas-options=-v -Xptxas -O3,--warn-on-spills -Xcompiler "
                    "-fPIC,-Wall -Xcompiler=-fopenmp",
                    "source = k.cu: --fmad=false --ftz=false -prec-div=true "
                    "--default-stream=per-thread -Xcudafe "
                    "--diag_suppress=177",
                    "source = k.cu: -allow-unsupported-compiler --extended-lambda -maxrregcount=64 "
                    "-arch sm_80 -lcublas "
                    "-diag-suppress=20,3"));

struct Refused {
  const char* flags;
  const char* why;
};
constexpr const char* kUnknown = "is not in the list of accepted flags";
constexpr const char* kResults =
    "changes floating-point results, or makes them depend on the build machine";
constexpr const char* kReads = "reads files that the cache key does not cover";

class RefusedFlags : public testing::TestWithParam<Refused> {};

// Fails if a flag that runs programs, accesses other files, or changes results is accepted.
TEST_P(RefusedFlags, NameTheFlagAndTheLine) {
  EXPECT_ERROR(with(std::string("flag = -O2 ") + GetParam().flags), corrupt, "line 6: ");
  EXPECT_ERROR(with(std::string("source = b.cpp: ") + GetParam().flags), corrupt, GetParam().why);
}
INSTANTIATE_TEST_SUITE_P(
    RunPrograms, RefusedFlags,
    testing::Values(
        Refused{"-fmodule-mapper=|touch", kUnknown}, Refused{"-fplugin=/tmp/x.so", kUnknown},
        Refused{"-fpass-plugin=/tmp/x.so", kUnknown}, Refused{"-wrapper", kUnknown},
        Refused{"-Wl,--plugin,/tmp/x.so", kUnknown}, Refused{"-Wl,-plugin=/tmp/x.so", kUnknown},
        Refused{"-Wl,@/tmp/words", kUnknown}, Refused{"-Wl,-rpath,@/tmp/words", kUnknown},
        Refused{"-fuse-ld=/tmp/x", kUnknown}, Refused{"-foffload=x", kUnknown},
        Refused{"-no-integrated-cpp", kUnknown}, Refused{"-B/tmp", kReads},
        Refused{"-specs=/tmp/x", kReads}, Refused{"-Wa,-a=/tmp/x", kUnknown},
        Refused{"-Wp,-MD,/tmp/x", kUnknown}, Refused{"-flto", kUnknown},
        Refused{"-Xclang", kUnknown}, Refused{"-Xlinker", kUnknown},
        Refused{"-Xassembler", kUnknown}));
INSTANTIATE_TEST_SUITE_P(
    WriteFiles, RefusedFlags,
    testing::Values(
        Refused{"-fopt-info-all=/tmp/x", kUnknown}, Refused{"-fopt-info", kUnknown},
        Refused{"-fdump-tree-all=/tmp/x", kUnknown}, Refused{"-fdump-go-spec=/tmp/x", kUnknown},
        Refused{"-save-temps=cwd", kUnknown}, Refused{"-save-temps", kUnknown},
        Refused{"-o/tmp/x", kUnknown}, Refused{"-MF/tmp/x", kUnknown}, Refused{"-MMD", kUnknown},
        Refused{"-dumpdir", kUnknown}, Refused{"-ftime-trace=/tmp/x", kUnknown},
        Refused{"-fprofile-generate=/tmp/x", kUnknown}, Refused{"-fprofile-dir=/tmp", kUnknown},
        Refused{"-ftest-coverage", kUnknown}, Refused{"--coverage", kUnknown},
        Refused{"-aux-info", kUnknown}, Refused{"-time=/tmp/x", kUnknown},
        Refused{"-fstack-usage", kUnknown}, Refused{"-fcallgraph-info", kUnknown},
        Refused{"-gsplit-dwarf", kUnknown}, Refused{"-fdiagnostics-format=sarif-file", kUnknown},
        Refused{"-freport-bug", kUnknown}));
INSTANTIATE_TEST_SUITE_P(
    ReadFiles, RefusedFlags,
    testing::Values(Refused{"-I/opt/include", kReads}, Refused{"-include/etc/x.h", kReads},
                    Refused{"-isystem/opt", kReads}, Refused{"-iquote/opt", kReads},
                    Refused{"--sysroot=/opt", kReads}, Refused{"@/tmp/words", "is not a flag"},
                    Refused{"-fprofile-use=/tmp/x", kUnknown},
                    Refused{"-fauto-profile=/tmp/x", kUnknown}, Refused{"-fmodules", kUnknown},
                    Refused{"-fsanitize-ignorelist=/tmp/x", kUnknown}));
INSTANTIATE_TEST_SUITE_P(
    ChangeResults, RefusedFlags,
    testing::Values(
        Refused{"-ffast-math", kResults}, Refused{"-Ofast", kResults},
        Refused{"-ffinite-math-only", kResults}, Refused{"-fassociative-math", kResults},
        Refused{"-freciprocal-math", kResults}, Refused{"-funsafe-math-optimizations", kResults},
        Refused{"-fno-signed-zeros", kResults}, Refused{"-fcx-limited-range", kResults},
        Refused{"-fcx-fortran-rules", kResults}, Refused{"-fexcess-precision=fast", kResults},
        Refused{"-fsingle-precision-constant", kResults}, Refused{"-ffp-contract=fast", kResults},
        Refused{"-ffp-model=fast", kResults}, Refused{"-mrecip", kResults},
        Refused{"-mdaz-ftz", kResults}, Refused{"-mpc32", kResults},
        Refused{"-mfpmath=387", kResults}, Refused{"-march=native", kResults},
        Refused{"-mtune=native", kResults}, Refused{"-mcpu=native+crypto", kResults},
        Refused{"-mlong-double-64", kUnknown}, Refused{"-m32", kUnknown}));

// Fails if a flag that is forbidden for the host compiler can be passed through nvcc, or a flag
// contains characters that the shell started by nvcc would expand.
TEST(NvccFlags, Rejected) {
  const auto source = [](const std::string& flags) { return with("source = k.cu: " + flags); };
  EXPECT_ERROR(source("--use_fast_math"), corrupt, kResults);
  EXPECT_ERROR(source("-use_fast_math"), corrupt, kResults);
  EXPECT_ERROR(source("--ftz=true"), corrupt, kResults);
  EXPECT_ERROR(source("-prec-sqrt=false"), corrupt, kResults);
  EXPECT_ERROR(source("--prec-div false"), corrupt, kResults);
  EXPECT_ERROR(source("-Xcompiler=-ffast-math"), corrupt, kResults);
  EXPECT_ERROR(source("-Xcompiler -Wall,-ffinite-math-only"), corrupt, kUnknown);
  EXPECT_ERROR(source("-Xcompiler=-I/opt"), corrupt, kReads);
  EXPECT_ERROR(source("-Xcompiler=-fplugin=/tmp/x"), corrupt, kUnknown);
  EXPECT_ERROR(source("-Xcompiler=-Wl,--plugin"), corrupt, kUnknown);
  EXPECT_ERROR(source("-ccbin=/tmp/x"), corrupt, kUnknown);
  EXPECT_ERROR(source("-ccbin /tmp/x"), corrupt, kUnknown);
  EXPECT_ERROR(source("--keep-dir=/tmp"), corrupt, kUnknown);
  EXPECT_ERROR(source("-optf /tmp/x"), corrupt, kUnknown);
  EXPECT_ERROR(source("-arch=native"), corrupt, kUnknown);
  EXPECT_ERROR(source("-gencode arch=native,code=sm_80"), corrupt, kUnknown);
  EXPECT_ERROR(source("-Xptxas --output-file=/tmp/x"), corrupt, kUnknown);
  EXPECT_ERROR(source("-maxrregcount"), corrupt, "has no value");
  EXPECT_ERROR(source("-DX=$(touch${IFS}/tmp/x)"), corrupt, "nvcc's shell expands");
  EXPECT_ERROR(source("-DX=`touch`"), corrupt, "nvcc's shell expands");
  EXPECT_ERROR(with("flag = -DX=$(touch)\nsource = k.cu"), corrupt,
               "the shell that nvcc starts expands $ and backquotes");
}

// Fails if a folder's name can contain commands that the shell started by nvcc would execute, or
// linker flags are passed to nvcc's compile step.
TEST(NvccFlags, FoldersThatTheShellExpands) {
  Op op{.description = with("source = k.cu\nflag = -Wl,-rpath,/opt/lib -lm -fno-math-errno"),
        .file = "/ops/tiny.op"};
  const Tools tools{.compiler = "/usr/bin/c++", .nvcc = "/cuda/bin/nvcc", .ccache = ""};
  const auto plan = make_plan(op, {}, nullptr, {}, tools, "/tmp");
  EXPECT_THAT(plan.steps.at(1).command,
              testing::Not(testing::Contains(testing::HasSubstr("rpath"))));
  EXPECT_THAT(plan.steps.at(1).command, testing::Contains("-Xcompiler=-fno-math-errno"));
  op.file = "/ops/$(touch x)/tiny.op";
  EXPECT_ERROR(make_plan(op, {}, nullptr, {}, tools, "/tmp"), unavailable,
               "use folders whose names do not contain these characters");
}

// Fails if the error about a very long flag prints the whole flag.
TEST(RefusedFlagMessage, IsShort) {
  try {
    with("flag = -f" + std::string(100'000, 'x') + "\xe2\x80\xae");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 1000U);
  }
}

}  // namespace

}  // namespace anyaccel::build
