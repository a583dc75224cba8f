"""Reports of plans and outcomes: views for a terminal, and JSON documents."""
