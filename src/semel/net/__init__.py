"""Connections: frames in order, back pressure, requests matched to replies."""
