"""Files, modules and names: what a project consists of and where a name comes from. Nothing is imported or run."""
