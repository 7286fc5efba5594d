"""The runtime witness: runs code, emulated or on a GPU, and says which findings are real. The only user of torch."""
