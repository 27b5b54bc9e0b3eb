"""A backend. The card is simulated on the host; replace the methods with calls to your runtime."""

import anyaccel


class PyCard(anyaccel.Backend):
    # The keys are those of anyaccel/sdk/traits.h. If torch knows the card's device type, or start()
    # adds it to torch, use `"device_type": "mycard"` instead of `base`.
    traits = {
        "base": "cpu",
        "vendor": "Example",
        "priority": -1500,  # lower than the CPU's: only DS_ACCELERATOR selects it; omit for a real device
        "op_builder_dir": "pycard.ops",
        "visible_devices_envs": ["PYCARD_VISIBLE_DEVICES"],
        "export_envs": ["PYCARD"],
    }

    @staticmethod
    def probe():
        """Count devices from files or the driver, without initializing one."""
        return 1, "the example is always there"

    @classmethod
    def start(cls):
        """Load the vendor's library, which registers the device with torch."""

    def properties(self, index):
        return {"name": "PyCard 1", "driver_version": "0.1", "total_memory": self.memory_info(index).total}
