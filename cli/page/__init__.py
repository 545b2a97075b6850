"""The HTML pages of all commands: one template, one style, one module of charts."""
