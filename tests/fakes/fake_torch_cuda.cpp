// A fake libtorch_cuda.so with the parts of a CUDA LibTorch that graphs use: torch's class
// at::cuda::CUDAGraph, with methods that record their calls.
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>

#include <atomic>
#include <string>

namespace {
std::string calls;
cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
}  // namespace

extern "C" const char* fake_torch_cuda_calls() { return calls.c_str(); }

namespace at::cuda {

CUDAGraph::CUDAGraph(bool keep_graph)
    : capture_stream_(c10::cuda::getCurrentCUDAStream()), keep_graph_(keep_graph) {
  calls += "make ";
}
CUDAGraph::~CUDAGraph() { calls += "destroy "; }
void CUDAGraph::capture_begin(MempoolId_t pool, cudaStreamCaptureMode) {
  calls += "begin ";
  mempool_id_ = pool.first == 0 ? MempoolId_t{77, 0} : pool;
  status = cudaStreamCaptureStatusActive;
}
void CUDAGraph::capture_end() {
  calls += "end ";
  status = cudaStreamCaptureStatusNone;
}
void CUDAGraph::replay() { calls += "replay "; }
void CUDAGraph::reset() { calls += "reset "; }
MempoolId_t CUDAGraph::pool() { return mempool_id_; }

}  // namespace at::cuda

// Inline functions in torch's headers refer to this variable. Without optimization, the linker
// needs it.
namespace c10::cuda::CUDACachingAllocator {
std::atomic<CUDAAllocator*> allocator{nullptr};
}  // namespace c10::cuda::CUDACachingAllocator

namespace c10::cuda {

CUDAStream getCurrentCUDAStream(DeviceIndex) {
  return CUDAStream(CUDAStream::UNCHECKED,
                    c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCUDA, 0), 0));
}
cudaStream_t CUDAStream::stream() const { return nullptr; }
void c10_cuda_check_implementation(const int32_t, const char*, const char*, const uint32_t,
                                   const bool) {}

}  // namespace c10::cuda

extern "C" cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* out) {
  *out = status;
  return cudaSuccess;
}
extern "C" cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
extern "C" cudaError_t cudaGetLastError() { return cudaSuccess; }
extern "C" const char* cudaGetErrorString(cudaError_t) { return "fake"; }
