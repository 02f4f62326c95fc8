"""The false world: documents and queries made up, so that everything can be tried, repeated and measured."""
