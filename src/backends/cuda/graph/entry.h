// The door between libanyaccel and libanyaccel_cuda_graph: two plain C functions, found by name.
// The second library needs a CUDA LibTorch; the first must not, so they meet at run time.
#pragma once

namespace anyaccel::sdk {
class GraphImpl;
}

extern "C" {

/// Version of LibTorch that the library was built for, for example "2.13.0". Static text.
using AnyaccelCudaGraphTorchVersion = const char*();
/// A new graph, owned by the caller (delete through sdk::GraphImpl); may throw anyaccel::Error or
/// c10::Error.
using AnyaccelCudaGraphCreate = anyaccel::sdk::GraphImpl*();
/// 1 while the calling thread's current stream is being captured, else 0. Starts nothing.
using AnyaccelCudaGraphCapturing = int();
}
