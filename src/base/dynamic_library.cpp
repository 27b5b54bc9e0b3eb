#include "base/dynamic_library.h"

#include <dlfcn.h>

#include "anyaccel/error.h"

namespace anyaccel {

namespace {

std::string loader_reason() {
  const char* text = ::dlerror();
  return text == nullptr ? "the loader reported no reason" : text;
}

}  // namespace

DynamicLibrary::DynamicLibrary(const std::string& name, Unload unload, bool global)
    : stays_(unload == Unload::never), name_(name) {
  // dlopen("") would return the program itself.
  if (name.empty())
    throw Error(ErrorCode::invalid_argument, "DynamicLibrary",
                {.what = "the library name is empty"});
  // Use RTLD_NOW, so that a missing symbol is reported here rather than later, during a run.
  handle_ = ::dlopen(name.c_str(),
                     RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL) | (stays_ ? RTLD_NODELETE : 0));
  if (handle_ == nullptr)
    throw Error(ErrorCode::unavailable, "DynamicLibrary",
                {.what = "cannot load the library " + name + ": " + loader_reason()});
}

DynamicLibrary::~DynamicLibrary() { close(); }

DynamicLibrary::DynamicLibrary(DynamicLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      stays_(other.stays_),
      name_(std::move(other.name_)) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
  if (this == &other) return *this;
  close();
  handle_ = std::exchange(other.handle_, nullptr);
  stays_ = other.stays_;
  name_ = std::move(other.name_);
  return *this;
}

DynamicLibrary DynamicLibrary::try_open(const std::string& name, std::string* reason,
                                        Unload unload) noexcept try {
  return DynamicLibrary(name, unload);
} catch (const std::exception& error) {
  if (reason != nullptr) *reason = error.what();
  return {};
}

void* DynamicLibrary::find(const char* symbol) const noexcept {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, symbol);
}

void* DynamicLibrary::get(const char* symbol) const {
  void* const address = find(symbol);
  if (address != nullptr) return address;
  const std::string who = name_.empty() ? "(none open)" : name_;
  throw Error(ErrorCode::unavailable, "DynamicLibrary",
              {.what = "the library " + who + " has no symbol " + symbol});
}

void DynamicLibrary::close() noexcept {
  if (handle_ != nullptr && !stays_) ::dlclose(handle_);
  handle_ = nullptr;
}

}  // namespace anyaccel
