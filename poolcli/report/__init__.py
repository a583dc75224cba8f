"""What people and programs are told: text for a terminal, JSON, and safe names."""
