"""A batch taken apart after the fact: replay, bisect."""
