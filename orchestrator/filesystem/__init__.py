"""Files and file systems: input opened, files written whole, free space and mounts."""
