#include "backends/sim/check/fault_handler.h"

#include <signal.h>
#include <ucontext.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace anyaccel::backends::sim::checking {

namespace {

FaultFunction ours = nullptr;
struct sigaction former;

bool was_write([[maybe_unused]] void* context) {
#if defined(__x86_64__)
  constexpr greg_t kWrite = 2;
  return (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWrite) != 0;
#elif defined(__aarch64__)
  // The signal frame is followed by records of different kinds (asm/sigcontext.h). One of them
  // contains the register ESR_EL1, whose bit WnR is set for writes.
  constexpr std::uint32_t kEsr = 0x45535201;
  constexpr std::uint64_t kWrite = 1 << 6;
  struct Head {
    std::uint32_t magic, size;
  } head;
  const auto& records = static_cast<ucontext_t*>(context)->uc_mcontext.__reserved;
  for (std::size_t at = 0; at + sizeof head + sizeof(std::uint64_t) <= sizeof records;
       at += head.size) {
    std::memcpy(&head, records + at, sizeof head);
    if (head.size < sizeof head) break;
    if (head.magic != kEsr) continue;
    std::uint64_t esr = 0;
    std::memcpy(&esr, records + at + sizeof head, sizeof esr);
    return (esr & kWrite) != 0;
  }
  return false;
#else
  return false;
#endif
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((former.sa_flags & SA_SIGINFO) != 0) {
    former.sa_sigaction(signal, info, context);
  } else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
    former.sa_handler(signal);
  } else {
    // After a fault, the access is retried and faults again, and the previous action handles that
    // fault. A signal that a process sent does not recur, so raise it.
    ::sigaction(signal, &former, nullptr);
    if (info->si_code <= 0) ::raise(signal);
  }
}

void handle(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_fault = info->si_code > 0;  // raised by the kernel, not sent by a process
  const bool again =
      is_fault && ours(reinterpret_cast<std::uintptr_t>(info->si_addr), was_write(context));
  errno = error;
  if (!again) pass_on(signal, info, context);
}

}  // namespace

void handle_faults(FaultFunction function) {
  if (ours != nullptr) return;
  ours = function;
  struct sigaction action = {};
  action.sa_sigaction = handle;
  // A report takes locks and allocates memory. That is safe here, because the fault comes from the
  // program's own access to memory that neither malloc nor the checker uses. Malloc and the checker
  // never fault themselves.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGSEGV, &action, &former);
}

}  // namespace anyaccel::backends::sim::checking
