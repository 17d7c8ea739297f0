"""The golden side: runs inside the framework's own environment, so it imports only errors, naming, netfiles, config/plan and numpy."""
