"""The pages in HTML: style, charts, tables."""
