"""Places to read pristine files from."""
