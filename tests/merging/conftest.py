from merged_hosts import hosts, merging

__all__ = ["hosts", "merging"]
