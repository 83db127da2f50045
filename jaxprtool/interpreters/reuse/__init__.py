"""What is not done twice: jaxprs that are shared, equations that are copies, rules that are replayed."""
