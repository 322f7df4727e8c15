"""A store in Redis or Valkey, and the cache there."""
