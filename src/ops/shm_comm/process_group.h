// Declaration of c10d's process group registry, for code that only checks whether a name still
// refers to the same object. c10d's own header takes longer to compile than the rest of this op.
// The function is declared as in c10d, but with an incomplete class. api.cpp includes both headers,
// so the compiler checks that the declarations match.
#pragma once

#include <c10/macros/Export.h>
#include <c10/util/intrusive_ptr.h>

#include <string>

namespace c10d {
class ProcessGroup;
C10_EXPORT c10::intrusive_ptr<ProcessGroup> resolve_process_group(const std::string& group_name);
}  // namespace c10d

namespace anyaccel::ops::shm {

/// Returns the process group with this name as a pointer to its base class. Throws c10::Error if
/// there is none.
inline c10::intrusive_ptr<c10::intrusive_ptr_target> resolve_process_group(
    const std::string& name) {
  // The declared result type cannot be destroyed here, because its class is incomplete, so the
  // function is called through a different type. Both result types consist of a single pointer,
  // which the callee writes to memory that the caller provides. The destructor of the caller's type
  // releases it. api.cpp checks sizes and base classes; a test checks the address and the reference
  // count.
  using Resolve = c10::intrusive_ptr<c10::intrusive_ptr_target>(const std::string&);
  return reinterpret_cast<Resolve*>(reinterpret_cast<void (*)()>(&c10d::resolve_process_group))(
      name);
}

}  // namespace anyaccel::ops::shm
