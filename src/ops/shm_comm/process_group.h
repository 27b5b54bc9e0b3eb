// c10d's registry of process groups for who asks only whether a name still means the same object:
// c10d's own header takes the compiler longer than all the rest of this op. The function is
// declared as c10d declares it, of a class that is not known here; api.cpp includes both headers,
// so that the compiler holds them side by side.
#pragma once

#include <c10/macros/Export.h>
#include <c10/util/intrusive_ptr.h>

#include <string>

namespace c10d {
class ProcessGroup;
C10_EXPORT c10::intrusive_ptr<ProcessGroup> resolve_process_group(const std::string& group_name);
}  // namespace c10d

namespace anyaccel::ops::shm {

/// The process group of that name as what every such object begins with. Throws c10::Error when
/// there is none.
inline c10::intrusive_ptr<c10::intrusive_ptr_target> resolve_process_group(
    const std::string& name) {
  // Without its class the result could not be let go. Both types of result are one pointer, which
  // the caller has room for and its destructor gives back; api.cpp checks sizes and bases, a test
  // the address and the count.
  using Resolve = c10::intrusive_ptr<c10::intrusive_ptr_target>(const std::string&);
  return reinterpret_cast<Resolve*>(reinterpret_cast<void (*)()>(&c10d::resolve_process_group))(
      name);
}

}  // namespace anyaccel::ops::shm
