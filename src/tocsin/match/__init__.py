"""Many queries against many documents."""
