"""State of the page, its links and events, and what all tabs are drawn with."""
