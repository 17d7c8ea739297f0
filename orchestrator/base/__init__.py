"""What everything stands on: errors, names, texts, files, processes, memory, Ctrl-C, protobuf."""
