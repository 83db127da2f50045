"""What each release of JAX prints, and texts of earlier ones as those of the current one."""
