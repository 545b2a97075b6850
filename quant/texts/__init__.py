"""Texts: corpora, files of texts, labels and words, and their tokens."""
