"""Studies: many training runs on tracks, started with one command and stored as small files."""
