"""One module per experiment of the papers; results as tables and plots."""
