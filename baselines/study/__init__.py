"""Studies: many training runs on tracks, started by one command and stored as small files."""
