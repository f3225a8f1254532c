"""Looking into corpora: what is in them, without changing anything; one page that tells it, and a difference of two."""
