"""Studies: many training runs on tracks, made by one command and kept as small files."""
