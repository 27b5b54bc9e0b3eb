// A fake profiler for NVTX 3 that records its calls. NVTX loads it through NVTX_INJECTION64_PATH.
#include <nvtx3/nvToolsExt.h>

#include <map>
#include <string>

namespace {
std::string calls;
std::map<std::string, char> domains;  // the address of each value is the domain's handle

std::string name_of(nvtxDomainHandle_t domain) {
  for (auto& [name, handle] : domains)
    if (reinterpret_cast<nvtxDomainHandle_t>(&handle) == domain) return name;
  return "-";
}
nvtxDomainHandle_t create(const char* name) {
  return reinterpret_cast<nvtxDomainHandle_t>(&domains[name]);
}
int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  calls += "push " + name_of(domain) + "/" + std::to_string(event->category) + "/" +
           event->message.ascii + "; ";
  return 0;
}
int pop(nvtxDomainHandle_t domain) {
  calls += "pop " + name_of(domain) + "; ";
  return 0;
}
void category(nvtxDomainHandle_t domain, std::uint32_t number, const char* name) {
  calls += "category " + name_of(domain) + "/" + std::to_string(number) + "=" + name + "; ";
}

template <typename Function>
void set(NvtxFunctionTable table, int index, Function function) {
  *table[index] = reinterpret_cast<NvtxFunctionPointer>(function);
}
}  // namespace

extern "C" __attribute__((visibility("default"))) const char* fake_nvtx_calls() {
  return calls.c_str();
}

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0)
    return 0;
  set(table, NVTX_CBID_CORE2_DomainCreateA, create);
  set(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  set(table, NVTX_CBID_CORE2_DomainNameCategoryA, category);
  return 1;
}
