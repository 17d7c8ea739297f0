"""What the model says: its graph, and which target tensor belongs to which golden tensor."""
