"""Where jobs run: one row of a table and one module each, behind one call."""
