"""Programs that compute in a wider precision, in whole or in part, or with rounding errors of their own."""
