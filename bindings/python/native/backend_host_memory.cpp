// Adapts host allocators from Python backends to C++, and host allocators from C++ backends to
// Python.
#include <map>
#include <string>

#include "backend.h"

namespace anyaccel::python {

namespace {

/// Maps each block to the allocator that must free it. Requires the GIL. The map is never
/// destroyed, because tensors may outlive static objects.
std::map<void*, std::shared_ptr<Kept>>& owners() {
  static auto& made = *new std::map<void*, std::shared_ptr<Kept>>;
  return made;
}

void release(void* data) {
  // Once the interpreter has shut down, the allocator cannot be called. The system frees the memory
  // when the process exits.
  if (data == nullptr || !python_runs()) return;
  const py::gil_scoped_acquire gil;
  const auto found = owners().extract(data);
  if (found.empty()) return;
  try {
    found.mapped()->get().attr("free")(reinterpret_cast<std::uintptr_t>(data));
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("anyaccel: free() of a Python backend's host allocator");
  }
}

/// Allocator that calls the methods allocate(num_bytes) and free(address) of a Python object. Data
/// and context are the same address, as raw_allocate() requires.
class PythonHostAllocator final : public c10::Allocator {
 public:
  PythonHostAllocator(py::object object, std::string backend)
      : object_(std::make_shared<Kept>(std::move(object))),
        where_(std::move(backend) + ".host_allocator") {}
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = nullptr;
    if (bytes != 0) {
      data = ask(
          *object_, where_, "allocate",
          [this](const py::object& answer) {
            auto* const given =
                answer.is_none() ? nullptr : reinterpret_cast<void*>(answer.cast<std::uintptr_t>());
            if (given != nullptr) owners()[given] = object_;
            return given;
          },
          bytes);
      if (data == nullptr)
        throw Error(
            ErrorCode::out_of_memory, where_,
            {.what = "allocate() returned no memory", .want = std::to_string(bytes) + " bytes"});
    }
    return {data, data, &release, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, std::size_t count) const override {
    default_copy_data(destination, source, count);
  }

 private:
  std::shared_ptr<Kept> object_;
  std::string where_;
};

/// Python class that wraps a C++ allocator. Blocks are freed by free(), or when the object is
/// destroyed.
class HostAllocator {
 public:
  explicit HostAllocator(c10::Allocator* allocator) : allocator_(allocator) {}
  c10::Allocator* unwrap() const { return allocator_; }
  std::uintptr_t allocate(std::size_t bytes) {
    auto block = [&] {
      const py::gil_scoped_release release;
      return allocator_->allocate(bytes);
    }();
    const auto address = reinterpret_cast<std::uintptr_t>(block.get());
    if (address != 0) blocks_[address] = std::move(block);
    return address;
  }
  void free(std::uintptr_t address) { blocks_.erase(address); }

 private:
  c10::Allocator* allocator_;
  std::map<std::uintptr_t, c10::DataPtr> blocks_;
};

}  // namespace

c10::Allocator* host_allocator_from(py::object made, const std::string& backend) {
  if (made.is_none()) return nullptr;
  if (py::isinstance<HostAllocator>(made)) return made.cast<const HostAllocator&>().unwrap();
  for (const char* const function : {"allocate", "free"})
    if (!py::hasattr(made, function))
      throw Error(ErrorCode::invalid_argument, backend + ".host_allocator",
                  {.what = "the result is not a host-memory allocator",
                   .got = py::repr(made),
                   .want = "None, or an object with allocate(num_bytes) and free(address)"});
  // Never destroyed, because its tensors may live until the process exits.
  return new PythonHostAllocator(std::move(made), backend);
}

void bind_host_memory_below(py::module_& module, BackendBelow& below) {
  py::class_<HostAllocator>(module, "HostAllocator", "The host allocator of a C++ backend.")
      .def("allocate", &HostAllocator::allocate, py::arg("num_bytes"))
      .def("free", &HostAllocator::free, py::arg("address"));
  below
      .def("host_allocator",
           [](const sdk::Backend& self) -> std::unique_ptr<HostAllocator> {
             auto* const allocator = [&] {
               const py::gil_scoped_release release;
               return self.host_allocator();
             }();
             return allocator == nullptr ? nullptr : std::make_unique<HostAllocator>(allocator);
           })
      .def("register_host_memory",
           [](sdk::Backend& self, std::uintptr_t address, std::size_t bytes) {
             return self.register_host_memory(reinterpret_cast<void*>(address), bytes);
           })
      .def("unregister_host_memory", [](sdk::Backend& self, std::uintptr_t address) {
        self.unregister_host_memory(reinterpret_cast<void*>(address));
      });
}

}  // namespace anyaccel::python
