"""Put a reply together from what a server sends of it, however it sends it."""
