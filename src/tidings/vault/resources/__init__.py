"""What can be read and watched at a vault:// URI, how it is listed and completed."""
