"""dump_data.proto: the messages of a dump file, in a private descriptor pool."""
