"""One thin module a command, found through the table in main."""
