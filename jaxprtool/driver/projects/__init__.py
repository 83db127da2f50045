"""Projects of users: their settings, their snapshots, and their repositories."""
