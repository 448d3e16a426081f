"""The built-in catalogue: products from word tables, and goals for them in plain English."""
