"""An om run by way of pyACL, in the host's own Python."""
