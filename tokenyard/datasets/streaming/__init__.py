"""Training from where a corpus lies far away: what is needed next is fetched ahead of need, into a bounded cache."""
