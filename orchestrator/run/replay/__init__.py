"""Every operator of a device run again on the CPU with the inputs that the device recorded: only
errors of their own show.
"""
