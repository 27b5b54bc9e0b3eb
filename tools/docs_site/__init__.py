"""Parts of tools/docs_pages, which creates the pages from which MkDocs builds the site."""
