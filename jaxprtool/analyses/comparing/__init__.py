"""Two runs beside each other: what differs, and which equation differs first."""
