#include "backends/hpu/traits.h"

#include "base/device_files.h"

namespace anyaccel::backends::hpu {

namespace {

// /sys/class/accel/accel<N>: Linux, Documentation/ABI/testing/sysfs-driver-habanalabs; 0x1da3 is
// PCI_VENDOR_ID_HABANALABS in drivers/accel/habanalabs/common/habanalabs_drv.c. Module ids are not
// device indices: docs.habana.ai, "Multiple Workloads on a Single Docker".
sdk::Probe probe() noexcept {
  return probe_device_files({.folder = "sys/class/accel",
                             .prefix = "accel",
                             .attribute = "device/vendor",
                             .attribute_value = "0x1da3",
                             .visible = {"HABANA_VISIBLE_MODULES"},
                             .visible_ids = VisibleIds::opaque});
}

}  // namespace

const sdk::Traits& traits() {
  static const sdk::Traits instance{
      .name = "hpu",
      .class_name = "HPU_Accelerator",
      .device_type = "hpu",
      .vendor = "Intel Gaudi",
      .communication_backend = "hccl",
      .compile_backend = "hpu_backend",
      .compile_backends = {"hpu_backend", "inductor", "aot_eager", "eager"},
      .resolves_data_dependency =
          true,  // the device is asynchronous, but its graph compiler orders dependent work
      .handles_memory_backpressure = true,  // its allocator waits until memory is free
      .indexed_names = false,
      .priority = 80,
      .visible_devices_envs = {"HABANA_VISIBLE_MODULES"},
      .export_envs = {},
      .start_environment = {{"PT_HPU_LAZY_ACC_PAR_MODE", "0",
                             "prevents the vendor's bridge from gathering lazy ops on a separate "
                             "thread; DeepSpeed uses the same workaround"},
                            {"PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES", "0",
                             "prevents the vendor's bridge from recompiling graphs for dynamic "
                             "shapes; DeepSpeed uses the same workaround"}},
      .op_builder_dir = "deepspeed.ops.op_builder.hpu",
      .probe = probe,
  };
  return instance;
}

}  // namespace anyaccel::backends::hpu
