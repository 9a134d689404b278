"""Tests of pages in a browser, and of notebooks in IPython (`make test-browser`)."""
