#include "base/library_folder.h"

#include <sys/auxv.h>

namespace anyaccel {

namespace fs = std::filesystem;

fs::path own_library_folder(const char* where) {
  Dl_info own{}, program{};
  ::dladdr(reinterpret_cast<void*>(&own_library_folder), &own);
  ::dladdr(reinterpret_cast<void*>(::getauxval(AT_ENTRY)), &program);
  if (own.dli_fbase == nullptr || own.dli_fbase != program.dli_fbase)
    return library_folder(where, &own_library_folder);
  // Use /proc, because the path that the loader reports for the program may be relative to the
  // working directory at startup.
  std::error_code error;
  if (const auto path = fs::canonical("/proc/self/exe", error); !error)
    return path.parent_path().parent_path() / "lib";
  throw Error(ErrorCode::unavailable, where,
              {.what = "cannot determine the path of the program: " + error.message()});
}

}  // namespace anyaccel
