"""Draws a plan as SVG, PNG or an HTML page."""
