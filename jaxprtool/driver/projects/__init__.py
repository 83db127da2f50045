"""Projects of users: their settings, what is kept of them, and their repositories."""
