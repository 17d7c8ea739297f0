"""The golden side: runs inside the framework's own environment, so it imports only the ground
modules, netfiles, config/plan and numpy.
"""
