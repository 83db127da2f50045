"""When two programs are the same: hashes, normal forms, signatures."""
