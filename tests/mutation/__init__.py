"""A sample of mutants: small changes of the code that some test should notice."""
