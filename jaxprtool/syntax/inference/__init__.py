"""Types that a text does not say: from arguments forwards, and from uses backwards."""
