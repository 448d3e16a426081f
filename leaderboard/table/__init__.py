"""The content that tabs show: ranks, comparisons, columns, numbers as text."""
