# install(...) of libraries, headers and the package file; `uninstall`.
