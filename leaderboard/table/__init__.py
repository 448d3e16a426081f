"""The content of tabs: ranks, comparisons, columns, numbers as text."""
