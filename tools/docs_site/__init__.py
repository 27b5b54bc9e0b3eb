"""Parts of tools/docs_pages, which creates the input pages for MkDocs."""
