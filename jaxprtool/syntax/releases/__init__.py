"""What each release of JAX prints, and the conversion of texts of earlier releases to the current spelling."""
