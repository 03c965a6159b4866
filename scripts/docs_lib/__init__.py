"""The parts of scripts/docs: examples, what declarations say, pages."""
