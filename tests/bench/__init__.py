"""poolcli against the frameworks that are installed: `python -m tests.bench --help`."""
