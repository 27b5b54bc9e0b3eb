// The interface between libanyaccel and libanyaccel_cuda_graph: plain C functions, found by name at
// run time. Only libanyaccel_cuda_graph needs a CUDA LibTorch.
#pragma once

namespace anyaccel::sdk {
class GraphImpl;
}

extern "C" {

/// LibTorch version that the library was built for, for example "2.13.0". A static string.
using AnyaccelCudaGraphTorchVersion = const char*();
/// A new graph, owned by the caller (delete through sdk::GraphImpl); may throw anyaccel::Error or
/// c10::Error.
using AnyaccelCudaGraphCreate = anyaccel::sdk::GraphImpl*();
/// Returns 1 while the calling thread's current stream is being captured, otherwise 0. Does not
/// initialize CUDA.
using AnyaccelCudaGraphCapturing = int();
}
