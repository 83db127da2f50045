"""Options of verbs: those that several verbs share, and the long lists of single verbs."""
