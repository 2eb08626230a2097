"""Rankings and tables of results, on pandas."""
