"""One dump plan, its written forms and its checks."""
