"""State of the page, its links and events, and the drawing code that all tabs share."""
