"""The public API; its names are re-exported by `penstock`."""
