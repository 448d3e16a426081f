"""The web server in front of the app."""
