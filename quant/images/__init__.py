"""Images: files, the front end that makes rows of them, and a corpus."""
