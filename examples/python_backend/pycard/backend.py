"""A backend. Here the card is the host; replace the methods with calls of your runtime."""

import anyaccel


class PyCard(anyaccel.Backend):
    # Names are those of anyaccel/sdk/traits.h. A card whose device type torch knows, or that
    # start() adds to torch, has `"device_type": "mycard"` instead of `base`.
    traits = {
        "base": "cpu",
        "vendor": "Example",
        "priority": -1500,  # below the host: only its name chooses it. Leave it out for real devices
        "op_builder_dir": "pycard.ops",
        "visible_devices_envs": ["PYCARD_VISIBLE_DEVICES"],
        "export_envs": ["PYCARD"],
    }

    @staticmethod
    def probe():
        """Counts devices from files or the driver, without starting one."""
        return 1, "the example is always there"

    @classmethod
    def start(cls):
        """Loads the vendor's library, which registers the device with torch."""

    def properties(self, index):
        return {"name": "PyCard 1", "driver_version": "0.1", "total_memory": self.memory_info(index).total}
