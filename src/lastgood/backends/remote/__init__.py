"""What the stores on a server share: how a commit meets other writers over a network."""
