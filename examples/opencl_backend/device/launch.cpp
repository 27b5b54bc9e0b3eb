#include "device/launch.h"

#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <tuple>
#include <utility>

#include "device/counters.h"

namespace ocl_backend {

struct Kernel {
  std::string name;
  cl_kernel handle = nullptr;
  /// A kernel object holds its arguments, so only one thread may set them at a time.
  std::mutex mutex;
};

namespace {

struct Cache {
  std::mutex mutex;
  std::string folder;
  std::map<std::pair<std::string, std::string>, cl_program> programs;
  std::map<std::tuple<std::string, std::string, std::string>, std::unique_ptr<Kernel>> kernels;
};

Cache& cache() {
  static auto* instance = new Cache;
  return *instance;
}

std::string read(const std::string& file) {
  const auto path = cache().folder + "/" + file;
  const std::ifstream stream(path);
  TORCH_CHECK(stream.good(), "ocl: cannot read the kernel source ", path,
              ". Reinstall the plugin with its folder of .cl files.");
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

cl_program build(const std::string& source, const std::string& options) {
  const char* text = source.c_str();
  cl_int status = CL_SUCCESS;
  auto* program = clCreateProgramWithSource(context(), 1, &text, nullptr, &status);
  check(status, "clCreateProgramWithSource");
  status = clBuildProgram(program, 0, nullptr, options.c_str(), nullptr, nullptr);
  if (status != CL_SUCCESS) {
    std::string log(16384, '\0');
    std::size_t size = 0;
    clGetProgramBuildInfo(program, device_id(0), CL_PROGRAM_BUILD_LOG, log.size(), log.data(),
                          &size);
    clReleaseProgram(program);
    log.resize(std::min(size, log.size()));
    TORCH_CHECK(false, "ocl: a kernel does not compile: ", log.c_str());
  }
  return program;
}

/// `source` is called only if the program is not compiled yet.
template <class Source>
Kernel& find(const std::string& key, const std::string& name, const std::string& options,
             const Source& source) {
  const std::lock_guard lock(cache().mutex);
  auto& entry = cache().kernels[{key, name, options}];
  if (entry == nullptr) {
    auto& program = cache().programs[{key, options}];
    if (program == nullptr) program = build(source(), options);
    cl_int status = CL_SUCCESS;
    auto made = std::make_unique<Kernel>();
    made->name = name;
    made->handle = clCreateKernel(program, name.c_str(), &status);
    check(status, "clCreateKernel");
    entry = std::move(made);
  }
  return *entry;
}

}  // namespace

void set_source_folder(std::string folder) { cache().folder = std::move(folder); }

Kernel& kernel(const std::string& file, const std::string& name, const std::string& defines) {
  return find(file, name, defines, [&] { return read("types.cl") + read(file); });
}

Kernel& generated_kernel(const std::string& name, const std::string& source) {
  return find(source, name, {}, [&] { return read("types.cl") + source; });
}

Pointer failure_flag(c10::DeviceIndex device) { return {failure_word(device)}; }

Launch::Launch(Kernel& kernel, c10::DeviceIndex device)
    : kernel_(kernel), queue_(current_queue(device)) {
  kernel_.mutex.lock();
}
Launch::~Launch() { kernel_.mutex.unlock(); }

Launch& Launch::arg(Pointer pointer) {
  const auto status = clSetKernelArgSVMPointer(kernel_.handle, next_, pointer.address);
  TORCH_CHECK(status == CL_SUCCESS, "ocl: pointer argument ", next_, " of kernel ", kernel_.name,
              " is rejected with OpenCL error ", status);
  ++next_;
  return *this;
}

void Launch::set(const void* value, std::size_t bytes) {
  const auto status = clSetKernelArg(kernel_.handle, next_, bytes, value);
  TORCH_CHECK(status == CL_SUCCESS, "ocl: argument ", next_, " of ", bytes, " bytes of kernel ",
              kernel_.name, " is rejected with OpenCL error ", status);
  ++next_;
}

void Launch::run(std::size_t global, std::size_t local) { run({global, 1, 1}, {local, 1, 1}); }

void Launch::run(std::array<std::size_t, 3> global, std::array<std::size_t, 3> local) {
  for (std::size_t i = 0; i < global.size(); ++i)
    global[i] = (global[i] + local[i] - 1) / local[i] * local[i];
  const auto status = queue_.enqueue([&](cl_event* event) {
    const auto done = clEnqueueNDRangeKernel(queue_.handle, kernel_.handle, 3, nullptr,
                                             global.data(), local.data(), 0, nullptr, event);
    if (done == CL_SUCCESS && counting()) count_kernel(kernel_.name, *event);
    return done;
  });
  TORCH_CHECK(status == CL_SUCCESS, "ocl: kernel ", kernel_.name,
              " cannot be enqueued (OpenCL error ", status, ")");
}

const char* type_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return "f32";
    case at::kBFloat16: return "bf16";
    case at::kHalf: return "f16";
    case at::kDouble: return device_info(0).fp64 ? "f64" : nullptr;
    case at::kLong: return "i64";
    case at::kInt: return "i32";
    case at::kShort: return "i16";
    case at::kChar: return "i8";
    case at::kByte: return "u8";
    case at::kBool: return "b8";
    default: return nullptr;
  }
}

const char* raw_name(at::ScalarType type) {
  switch (c10::elementSize(type)) {
    case 1: return "i8";
    case 2: return "i16";
    case 4: return "i32";
    case 8: return "i64";
    default: return nullptr;
  }
}

const char* compute_name(at::ScalarType type) {
  if (type == at::kDouble) return "double";
  return at::isFloatingType(type) ? "float" : "long";
}

}  // namespace ocl_backend
