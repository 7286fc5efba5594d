"""The language server, driven by the editors that people use."""
