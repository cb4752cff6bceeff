"""Runs the `penstock` command: `python -m penstock.cli`."""

from penstock.cli.main import app

app(prog_name="penstock")
