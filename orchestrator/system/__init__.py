"""What the machine is: memory, /proc and /sys, addresses, numpy's threads."""
