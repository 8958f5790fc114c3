"""What makes the book: the extension of Sphinx, the PDF, the exercises without solutions."""
