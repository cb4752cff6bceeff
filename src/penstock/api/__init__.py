"""What users import, re-exported by `penstock` itself."""
