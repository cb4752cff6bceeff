"""Looking into a checkpoint and changing it by hand, with no JVM and no query running.

`view` reads a checkpoint leniently, `inspect`, `verify` and `compare` describe it, `surgery`,
`source_surgery` and `fork` plan changes, `backup` carries a plan out so that it can be undone.
"""
