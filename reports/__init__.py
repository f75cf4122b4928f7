"""Reports over shardproof records: JSON lines in; Markdown, HTML, CSV and PNG out.

The package reads record files only. It never runs a model and never judges a figure again:
`pass` and `mismatch` are the harness's words, this package shows them.
"""
