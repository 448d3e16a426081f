"""Full-text search: BM25 over an index on disk, as Lucene computes it."""
