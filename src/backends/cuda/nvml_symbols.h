// The NVML functions that we call. The pointers, the lookup and the fake for tests are generated
// from this table. The entries are taken from nvml.h of the CUDA toolkit and the "NVML API
// Reference Guide" (docs.nvidia.com/deploy/nvml-api); the comments name the chapters. X(name,
// needed, parameters): if a needed function is missing, NVML is not used.
#pragma once

namespace anyaccel::backends::cuda {

using NvmlHandle = void*;  ///< nvmlDevice_t

/// nvmlMemory_t, "Device Structs".
struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;
};

/// nvmlReturn_t codes that callers distinguish.
enum NvmlResult : int { kNvmlSuccess = 0, kNvmlNoPermission = 4 };

}  // namespace anyaccel::backends::cuda

#define ANYACCEL_NVML_SYMBOLS(X)                                                     \
  /* Initialization and Cleanup */                                                   \
  X(nvmlInit_v2, true, (void))                                                       \
  /* System Queries */                                                               \
  X(nvmlSystemGetDriverVersion, false, (char*, unsigned))                            \
  /* Device Queries */                                                               \
  X(nvmlDeviceGetCount_v2, true, (unsigned*))                                        \
  X(nvmlDeviceGetHandleByIndex_v2, true, (unsigned, NvmlHandle*))                    \
  X(nvmlDeviceGetHandleByUUID, false, (const char*, NvmlHandle*))                    \
  X(nvmlDeviceGetUUID, false, (NvmlHandle, char*, unsigned))                         \
  X(nvmlDeviceGetName, false, (NvmlHandle, char*, unsigned))                         \
  X(nvmlDeviceGetMemoryInfo, false, (NvmlHandle, NvmlMemory*))                       \
  X(nvmlDeviceGetCudaComputeCapability, false, (NvmlHandle, int*, int*))             \
  X(nvmlDeviceGetNumaNodeId, false, (NvmlHandle, unsigned*))                         \
  /* Multi Instance GPU Management */                                                \
  X(nvmlDeviceGetMigMode, false, (NvmlHandle, unsigned*, unsigned*))                 \
  X(nvmlDeviceGetMaxMigDeviceCount, false, (NvmlHandle, unsigned*))                  \
  X(nvmlDeviceGetMigDeviceHandleByIndex, false, (NvmlHandle, unsigned, NvmlHandle*)) \
  X(nvmlDeviceGetGpuInstanceId, false, (NvmlHandle, unsigned*))                      \
  X(nvmlDeviceGetComputeInstanceId, false, (NvmlHandle, unsigned*))
