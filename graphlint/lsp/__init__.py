"""The language server (extra `lsp`)."""
