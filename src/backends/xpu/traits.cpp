#include "backends/xpu/traits.h"

#include "base/device_files.h"

namespace anyaccel::backends::xpu {

namespace {

// /sys/class/drm/renderD<N>/device/vendor: Linux, Documentation/gpu/drm-uapi.rst (render nodes) and
// Documentation/PCI/sysfs-pci.rst; 0x8086 is PCI_VENDOR_ID_INTEL in include/linux/pci_ids.h. A tile
// may be a separate device (ZE_FLAT_DEVICE_HIERARCHY), so the count here only shows whether there
// is a GPU. Torch counts the devices.
sdk::Probe probe() noexcept {
  return probe_device_files({.folder = "sys/class/drm",
                             .prefix = "renderD",
                             .attribute = "device/vendor",
                             .attribute_value = "0x8086"});
}

}  // namespace

const sdk::Traits& traits() {
  static const sdk::Traits instance{
      .name = "xpu",
      .class_name = "XPU_Accelerator",
      .device_type = "xpu",
      .vendor = "Intel",
      .communication_backend = "xccl",
      .compile_backend = "inductor",
      .compile_backends = {"inductor", "aot_eager", "eager"},
      .priority = 50,  // below cuda: many hosts with other accelerators have integrated Intel GPUs
      .visible_devices_envs = {"ZE_AFFINITY_MASK"},
      .export_envs = {},
      .start_environment = {},
      .op_builder_dir = "deepspeed.ops.op_builder.xpu",
      .probe = probe,
  };
  return instance;
}

}  // namespace anyaccel::backends::xpu
