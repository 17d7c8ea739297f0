"""A stand-in for an Ascend device: writes dump trees as the device does."""
