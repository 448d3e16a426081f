"""Recorded episodes, played again to be looked at."""
