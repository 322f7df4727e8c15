"""A store of plain files, one readable file for each checkpoint."""
