#include "backends/npu/traits.h"

#include "base/device_files.h"

namespace anyaccel::backends::npu {

namespace {

// /dev/davinci<N>: Huawei, MindCluster, "Usage on the Docker Client" (hiascend.com, document
// mindcluster/730, dlruntime_ug_004): "run ls /dev/davinci* to query the IDs of available physical
// processors". torch_npu (_parse_visible_devices and _device_count_ascend_hal in
// torch_npu/npu/__init__.py) defines how the list is read.
sdk::Probe probe() noexcept {
  return probe_device_files({.folder = "dev",
                             .prefix = "davinci",
                             .visible = {"ASCEND_RT_VISIBLE_DEVICES"},
                             .visible_ids = VisibleIds::ascending});
}

}  // namespace

const sdk::Traits& traits() {
  static const sdk::Traits instance{
      .name = "npu",
      .class_name = "NPU_Accelerator",
      .device_type = "npu",
      .vendor = "Huawei",
      .communication_backend = "hccl",
      .compile_backend = "inductor",
      .compile_backends = {"inductor", "aot_eager", "eager", "npu", "npugraph_ex", "npugraphs"},
      .priority = 78,
      .visible_devices_envs = {"ASCEND_RT_VISIBLE_DEVICES"},
      .export_envs = {"ASCEND", "HCCL", "LD_LIBRARY", "PATH"},
      .start_environment = {},
      .op_builder_dir = "deepspeed.ops.op_builder.npu",
      .probe = probe,
  };
  return instance;
}

}  // namespace anyaccel::backends::npu
