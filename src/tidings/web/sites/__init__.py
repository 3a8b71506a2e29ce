"""Which pages a site has."""
