"""Parts of tools/docs_pages, which makes the pages that MkDocs builds the site from."""
