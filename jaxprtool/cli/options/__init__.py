"""Options of verbs: those that several share, and the long lists of single ones."""
