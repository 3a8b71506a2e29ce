"""What a fetched page becomes: packets, their parts, and what can be made of them."""
