"""Pages as a browser shows them: Chromium, all of whose requests go through the one way to the network."""
