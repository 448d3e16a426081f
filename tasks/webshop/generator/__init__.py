"""The built-in catalogue: products from word tables, and wishes for them in plain English."""
