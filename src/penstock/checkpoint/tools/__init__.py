"""Commands that show, verify and change a checkpoint. They need no JVM.

`view` reads a checkpoint, also a damaged one; `inspect`, `verify` and `compare` describe it;
`surgery`, `source_surgery` and `fork` plan changes; `backup` applies a plan and can undo it.
"""
