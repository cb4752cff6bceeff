"""`python -m penstock.cli` is `penstock`."""

from penstock.cli.main import app

app(prog_name="penstock")
