"""What the tabs show of the content: ranks, comparisons, columns, numbers as text."""
