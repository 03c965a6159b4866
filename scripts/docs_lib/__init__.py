"""The parts of scripts/docs: examples, facts from declarations, pages."""
