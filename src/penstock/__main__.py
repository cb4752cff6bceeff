"""Runs the `penstock` command: `python -m penstock`."""

from penstock.cli.main import app

app(prog_name="penstock")
