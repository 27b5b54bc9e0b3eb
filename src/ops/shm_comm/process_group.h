// c10d::resolve_process_group for who asks only whether a process group is still the same object: c10d's own header takes the
// compiler longer than all the rest of this op. A process group begins with its intrusive_ptr_target, and a pointer to either is
// one address; api.cpp, which is compiled with that header, checks both.
#pragma once

#include <c10/macros/Export.h>
#include <c10/util/intrusive_ptr.h>

#include <string>

namespace c10d {
/// Throws c10::Error when there is none of that name. Part of the symbol's name are its arguments alone.
TORCH_API c10::intrusive_ptr<c10::intrusive_ptr_target> resolve_process_group(const std::string& group_name);
}  // namespace c10d
