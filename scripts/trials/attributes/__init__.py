"""The trial of explanations: networks of which one operator reads one thing otherwise than the
model says."""
