"""Golden data: this code runs inside the framework's own environment, so it imports only the base
modules, netfiles, config/dump_plan and numpy.
"""
