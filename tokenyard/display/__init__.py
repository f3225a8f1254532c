"""What people are shown: numbers with units, text that can't act, and the parts of self-contained HTML pages."""
