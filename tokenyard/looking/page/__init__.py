"""What was found in one corpus, or in two side by side, as one HTML page that needs nothing else: `corpus_page`."""

from tokenyard.looking.page.page import corpus_page

__all__ = ["corpus_page"]
