"""A store in PostgreSQL, the system of record of a team."""
