"""Files and file systems: reading input, writing files atomically, free space and mounts."""
