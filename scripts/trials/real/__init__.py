"""The trial of the verdict on public networks with their real weights, run on a device that shares
no arithmetic with goldwatch."""
