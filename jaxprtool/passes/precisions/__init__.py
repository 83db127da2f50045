"""Programs that compute in a wider precision, in whole or in part, or with other rounding errors."""
